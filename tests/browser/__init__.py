"""What needs a browser; a package, so that its files may be called like others."""
