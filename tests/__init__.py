"""The test suite: one folder for each package of `dcs`, shared helpers in `tests.helpers`."""
