"""Downloads from a server on this machine that does what servers and networks do wrong."""

import hashlib
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pooch
import pytest

from dcs.data import _download
from dcs.data._download import DownloadError, Remote, fetch, locked

BODY = b"".join(number.to_bytes(4, "big") for number in range(100_000))
MD5 = hashlib.md5(BODY, usedforsecurity=False).hexdigest()
ETAG = '"first"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.requests.append((self.path, self.headers["Range"], self.headers["If-Range"]))
        with suppress(BrokenPipeError, ConnectionResetError):
            self.server.pages[self.path](self)

    def answer(self, body=BODY, *, etag=ETAG, ranges=True, sent=None, pause=0.0, **headers):
        """Send a file, or the rest of it; `sent` bytes of what was promised, `pause` seconds a chunk."""
        start = 0
        if (
            ranges
            and self.headers["Range"]
            and self.headers["If-Range"] in (etag, headers.get("last_modified"))
        ):
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if etag:
            self.send_header("ETag", etag)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        body = body[start:][:sent]
        for at in range(0, len(body), 20_000):
            self.wfile.write(body[at : at + 20_000])
            time.sleep(pause)

    def status(self, code, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def end_headers(self):
        self.send_header("Connection", "close")
        super().end_headers()

    def log_message(self, *args):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages, self.requests = {}, []

    def page(self, path, *answers):
        """Give each request for a path the next answer, and all further ones the last."""
        left = list(answers)
        self.pages[path] = lambda handler: (left.pop(0) if len(left) > 1 else left[0])(handler)
        return f"http://127.0.0.1:{self.server_port}{path}"

    def ranges(self, path):
        return [range_ for asked, range_, _ in self.requests if asked == path]


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def good(handler):
    handler.answer()


def cut(handler):
    handler.answer(sent=150_000)


def missing(handler):
    handler.status(404)


def corrupt(handler):
    handler.answer(BODY[:-1] + bytes([BODY[-1] ^ 1]))


def refused():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}/refused"


def remote(*urls, md5=MD5):
    return Remote("data.bin", urls, md5, len(BODY))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def assert_complete(path, folder):
    assert path == folder / "data.bin"
    assert path.read_bytes() == BODY
    assert names(folder) == ["data.bin"]


@pytest.mark.parametrize("md5", [MD5, MD5.upper(), None])
def test_a_file_is_downloaded_once_and_nothing_else_is_left(server, tmp_path, md5):
    folder = tmp_path / "made" / "if need be"
    wanted = remote(server.page("/good", good), md5=md5)
    assert_complete(fetch(wanted, folder), folder)
    assert_complete(fetch(wanted, folder), folder)
    assert server.ranges("/good") == [None]
    assert (folder / "data.bin").stat().st_mode & 0o444 == 0o444 & ~os.umask(os.umask(0))


def test_a_file_that_is_there_is_trusted(tmp_path):
    (tmp_path / "data.bin").write_bytes(b"mine")
    with locked(tmp_path / "data.bin", "testing"):  # at once, whatever others do
        assert fetch(remote("http://nowhere.invalid/x"), tmp_path).read_bytes() == b"mine"
    assert names(tmp_path) == ["data.bin"]


def test_pooch_keeps_its_log_to_itself_and_gets_its_level_back(server, tmp_path, capfd):
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.DEBUG)
    try:
        fetch(remote(server.page("/good", good), md5=None), tmp_path)
        assert logger.level == logging.DEBUG
    finally:
        logger.setLevel(level)
    output = capfd.readouterr()
    assert output.out + output.err == ""


def test_a_redirect_is_followed(server, tmp_path):
    server.page("/good", good)
    url = server.page("/moved", lambda handler: handler.status(302, Location="/good"))
    assert_complete(fetch(remote(url), tmp_path), tmp_path)


def test_a_file_declared_as_gzip_encoded_is_kept_as_it_is(server, tmp_path):
    url = server.page("/gz", lambda handler: handler.answer(content_encoding="gzip"))
    assert_complete(fetch(remote(url), tmp_path), tmp_path)


def test_a_closed_connection_is_resumed_at_once(server, tmp_path):
    assert_complete(fetch(remote(server.page("/cut", cut, good)), tmp_path), tmp_path)
    assert server.requests == [("/cut", None, None), ("/cut", "bytes=150000-", ETAG)]


def test_the_length_is_compared_where_urllib3_does_not(server, tmp_path, monkeypatch):
    get = _download._get

    def lenient(*arguments):
        response = get(*arguments)
        response.raw.enforce_content_length = False  # as in urllib3 1
        return response

    monkeypatch.setattr(_download, "_get", lenient)
    assert_complete(fetch(remote(server.page("/cut", cut, good), md5=None), tmp_path), tmp_path)
    assert server.ranges("/cut") == [None, "bytes=150000-"]


@pytest.mark.parametrize("headers", [{"etag": None}, {"etag": 'W/"weak"'}])
def test_the_date_stands_in_for_a_strong_etag(server, tmp_path, headers):
    headers |= {"last_modified": formatdate(0, usegmt=True)}
    url = server.page(
        "/cut",
        lambda handler: handler.answer(sent=150_000, **headers),
        lambda handler: handler.answer(**headers),
    )
    assert_complete(fetch(remote(url), tmp_path), tmp_path)
    assert server.requests[1] == ("/cut", "bytes=150000-", headers["last_modified"])


def test_without_etag_and_date_the_download_starts_anew(server, tmp_path):
    url = server.page(
        "/cut",
        lambda handler: handler.answer(sent=150_000, etag=None),
        lambda handler: handler.answer(etag=None),
    )
    assert_complete(fetch(remote(url), tmp_path), tmp_path)
    assert server.ranges("/cut") == [None, None]


def test_the_next_call_resumes_what_was_cut_twice(server, tmp_path):
    url = server.page("/cut", cut, cut, good)
    with pytest.raises(DownloadError, match="closed after 300000 of 400000 bytes"):
        fetch(remote(url), tmp_path)
    assert not (tmp_path / "data.bin").exists()
    assert (tmp_path / "data.bin.part").read_bytes() == BODY[:300_000]
    assert_complete(fetch(remote(url), tmp_path), tmp_path)
    assert server.ranges("/cut") == [None, "bytes=150000-", "bytes=300000-"]


def test_a_mirror_that_fails_leaves_the_part_of_another_alone(server, tmp_path):
    urls = server.page("/cut", cut, cut, good), server.page("/missing", missing), refused()
    with pytest.raises(DownloadError):
        fetch(remote(*urls), tmp_path)
    assert_complete(fetch(remote(*urls), tmp_path), tmp_path)
    assert server.ranges("/cut")[-1] == "bytes=300000-"


def test_a_part_is_never_continued_from_another_mirror(server, tmp_path):
    other = bytes(len(BODY))
    urls = server.page("/cut", cut), server.page("/other", lambda handler: handler.answer(other))
    assert fetch(remote(*urls, md5=None), tmp_path).read_bytes() == other
    assert server.ranges("/other") == [None]


@pytest.mark.parametrize(
    "changed",
    [
        lambda handler: handler.answer(etag='"second"'),
        lambda handler: handler.answer(ranges=False),
        lambda handler: handler.status(416) if handler.headers["Range"] else handler.answer(),
    ],
    ids=["changed", "ignores ranges", "416"],
)
def test_what_cannot_be_continued_is_written_anew(server, tmp_path, changed):
    url = server.page("/file", lambda handler: handler.answer(bytes(len(BODY)), sent=150_000), changed)
    assert fetch(remote(url, md5=None), tmp_path).read_bytes() == BODY
    assert names(tmp_path) == ["data.bin"]
    assert server.ranges("/file")[:2] == [None, "bytes=150000-"]


@pytest.mark.parametrize(("etag", "start"), [('"second"', 150_000), (ETAG, 150_001)])
def test_a_server_that_sends_the_wrong_range_is_asked_for_all(server, tmp_path, etag, start):
    def wrong(handler):
        if not handler.headers["Range"]:
            handler.answer()
            return
        handler.send_response(206)
        handler.send_header("ETag", etag)
        handler.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        handler.send_header("Content-Length", str(len(BODY) - start))
        handler.end_headers()
        handler.wfile.write(bytes(len(BODY) - start))

    assert_complete(fetch(remote(server.page("/file", cut, wrong)), tmp_path), tmp_path)
    assert server.ranges("/file") == [None, "bytes=150000-", None]


@pytest.mark.parametrize("memory", [None, "", '{"url": "htt'])
def test_a_part_of_unknown_origin_is_written_anew(server, tmp_path, memory):
    (tmp_path / "data.bin.part").write_bytes(b"what is this?")
    if memory is not None:
        (tmp_path / "data.bin.part.json").write_text(memory)
    assert_complete(fetch(remote(server.page("/good", good), md5=None), tmp_path), tmp_path)
    assert server.ranges("/good") == [None]


def test_a_corrupt_file_is_thrown_away_and_the_next_mirror_tried(server, tmp_path):
    urls = server.page("/corrupt", corrupt), server.page("/good", good)
    assert_complete(fetch(remote(*urls), tmp_path), tmp_path)
    assert len(server.ranges("/corrupt")) == 1
    assert server.ranges("/good") == [None]


def test_a_corrupt_file_is_never_resumed(server, tmp_path):
    url = server.page("/corrupt", corrupt)
    got = hashlib.md5(BODY[:-1] + bytes([BODY[-1] ^ 1]), usedforsecurity=False).hexdigest()
    with pytest.raises(DownloadError) as raised:
        fetch(remote(url), tmp_path)
    assert f"{url}: checksum differs (expected {MD5}, got {got})" in str(raised.value)
    assert set(names(tmp_path)) <= {"data.bin.lock"}


def test_the_error_names_every_address_its_reason_and_the_way_out(server, tmp_path, monkeypatch):
    monkeypatch.setattr(_download, "READ_TIMEOUT", 0.2)

    def silent(handler):
        time.sleep(0.5)

    def stuck(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(BODY)))
        handler.end_headers()
        handler.wfile.write(BODY[:70_000])
        time.sleep(0.5)

    urls = [
        server.page("/missing", missing),
        server.page("/broken", lambda handler: handler.status(503)),
        server.page("/empty", lambda handler: handler.status(204)),
        server.page("/cut", lambda handler: handler.answer(sent=100_000, etag=None)),
        server.page("/silent", silent),
        server.page("/stuck", stuck),
        server.page("/loop", lambda handler: handler.status(302, Location="/loop")),
        server.page("/local", lambda handler: handler.status(302, Location="file:///data.bin")),
        refused(),
        "file:///data.bin",
    ]
    with pytest.raises(DownloadError) as raised:
        fetch(remote(*urls), tmp_path)
    first, *lines, last = str(raised.value).splitlines()
    assert first == "cannot download data.bin:"
    assert last == f"download it by hand and put it at {tmp_path / 'data.bin'}"
    reasons = [line.removeprefix(f"  {url}: ") for url, line in zip(urls, lines, strict=True)]
    assert reasons == [
        "404 Not Found",
        "503 Service Unavailable",
        "204 No Content",
        "closed after 100000 of 400000 bytes",
        "timed out",
        "timed out after 65536 of 400000 bytes",
        "exceeded 30 redirects.",
        reasons[7],
        "connection refused",
        "only http and https are supported",
    ]
    assert reasons[7].startswith("no connection adapters")
    assert not (tmp_path / "data.bin").exists()


def test_an_unknown_host_is_reported(tmp_path, monkeypatch):
    def unknown(*args, **kwargs):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DownloadError, match=r"http://nowhere\.invalid/x: name or service not known"):
        fetch(remote("http://nowhere.invalid/x"), tmp_path)


def test_a_chunked_answer_that_breaks_off_is_an_error(server, tmp_path):
    def chunked(handler, end):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(BODY), BODY) + end)

    whole = server.page("/whole", lambda handler: chunked(handler, b"0\r\n\r\n"))
    broken = server.page("/broken", lambda handler: chunked(handler, b""))
    with pytest.raises(DownloadError, match="closed after 400000 bytes"):
        fetch(remote(broken), tmp_path)
    assert_complete(fetch(remote(broken, whole), tmp_path), tmp_path)


def test_a_folder_that_cannot_be_made_is_named(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DownloadError, match=r"cannot save .*file/folder/data\.bin: Not a directory"):
        fetch(remote(server.page("/good", good)), tmp_path / "file" / "folder")
    assert server.requests == []


def test_a_folder_that_cannot_be_written_is_named(server):
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        if user == 0:  # root may write anywhere
            os.seteuid(65534)
        try:
            with pytest.raises(DownloadError, match=r"cannot save .*data\.bin: Permission denied"):
                fetch(remote(server.page("/good", good)), Path(folder))
        finally:
            os.seteuid(user)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_reported_and_no_other_mirror_asked(server, tmp_path):
    (tmp_path / "data.bin.part").symlink_to("/dev/full")
    urls = server.page("/good", good), server.page("/other", good)
    with pytest.raises(DownloadError, match=r"cannot save .*data\.bin: No space left on device"):
        fetch(remote(*urls), tmp_path)
    assert not (tmp_path / "data.bin").exists()
    assert server.ranges("/other") == []


FETCH = """
import sys
from pathlib import Path
from dcs.data._download import Remote, fetch
url, md5, folder = sys.argv[1:]
print(fetch(Remote("data.bin", (url,), md5), Path(folder)))
"""


def start(url, folder):
    command = [sys.executable, "-c", FETCH, url, MD5, folder]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_processes_download_once(server, tmp_path):
    asked, second_waits = threading.Event(), threading.Event()

    def slow(handler):
        asked.set()
        assert second_waits.wait(20)
        handler.answer()

    url = server.page("/slow", slow)
    first = start(url, tmp_path)
    assert asked.wait(20)
    second = start(url, tmp_path)
    assert second.stderr.readline() == "waiting for another process that is downloading data.bin\n"
    second_waits.set()
    for process in (first, second):
        assert process.communicate(timeout=20) == (f"{tmp_path / 'data.bin'}\n", "")
    assert_complete(tmp_path / "data.bin", tmp_path)
    assert server.ranges("/slow") == [None]


def test_a_killed_download_is_resumed(server, tmp_path):
    url = server.page("/slow", lambda handler: handler.answer(pause=0.1), good)
    part = tmp_path / "data.bin.part"
    process = start(url, tmp_path)
    deadline = time.monotonic() + 20
    while not (part.exists() and part.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=10)
    size = part.stat().st_size
    assert 0 < size < len(BODY)
    assert_complete(fetch(remote(url), tmp_path), tmp_path)
    assert server.ranges("/slow") == [None, f"bytes={size}-"]
