"""Archives, honest and hostile."""

import bz2
import gzip
import io
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import tarfile
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcs.data import _archives
from dcs.data._archives import unpack
from dcs.data._dataset import DataError
from dcs.data._download import locked

LIMIT = 1_000_000
FILES = {
    "readme.txt": b"hello",
    "images/0/a.bin": bytes(range(256)) * 300,
    "images/1/b.bin": b"",
    "ü.txt": b"x",
}
COMPRESS = {".tar": bytes, ".tar.gz": gzip.compress, ".tgz": gzip.compress, ".tar.bz2": bz2.compress}
KINDS = [".zip", *COMPRESS]


def zip_bytes(*members):
    """A zip of (name or ZipInfo, content) pairs."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def tar_bytes(*members, **options):
    """A tar of (name, content) pairs, where None stands for a folder, and of TarInfos."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", **options) as archive:
        for member in members:
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member[0])
            content = b"" if info is member else member[1]
            if content is None:
                info.type, content = tarfile.DIRTYPE, b""
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def pack(kind, *members):
    return zip_bytes(*members) if kind == ".zip" else COMPRESS[kind](tar_bytes(*members))


def save(tmp_path, kind, content):
    archive = tmp_path / f"archive{kind}"
    archive.write_bytes(content)
    return archive


def read(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def assert_refused(tmp_path, kind, content, match, limit=LIMIT):
    """The archive is refused, with its name, and nothing is written anywhere."""
    archive = save(tmp_path, kind, content)
    with pytest.raises(DataError, match=match) as raised:
        unpack(archive, tmp_path / "inner" / "folder", limit=limit)
    assert str(archive) in str(raised.value)
    assert set(os.listdir(tmp_path / "inner")) <= {"folder.lock"}
    assert sorted(os.listdir(tmp_path)) == [archive.name, "inner"]


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(tmp_path, kind):
    archive = save(tmp_path, kind, pack(kind, *FILES.items()))
    folder = tmp_path / "made" / "folder"
    assert unpack(archive, folder, limit=sum(map(len, FILES.values()))) == folder
    assert read(folder) == FILES
    assert os.listdir(folder.parent) == ["folder"]


@pytest.mark.parametrize("kind", [".zip", ".tar"])
def test_the_modes_of_the_archive_are_ignored(tmp_path, kind):
    if kind == ".zip":
        wild = zipfile.ZipInfo("d/f")
        wild.external_attr = (stat.S_IFREG | 0o6777) << 16
        closed = zipfile.ZipInfo("closed/")
        closed.external_attr = (stat.S_IFDIR) << 16
        content = zip_bytes((wild, b"x"), (closed, b""))
    else:
        wild, closed = tarfile.TarInfo("d/f"), tarfile.TarInfo("closed")
        wild.mode, closed.mode, closed.type = 0o6777, 0, tarfile.DIRTYPE
        content = tar_bytes(wild, closed)
    umask = os.umask(0o077)
    try:
        folder = unpack(save(tmp_path, kind, content), tmp_path / "folder", limit=LIMIT)
    finally:
        os.umask(umask)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
    assert modes == {folder: 0o755, folder / "d": 0o755, folder / "d/f": 0o644, folder / "closed": 0o755}


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_exists_is_left_as_it_is(tmp_path, kind):
    folder = tmp_path / "folder"
    folder.mkdir()
    with locked(folder, "testing"):  # at once, whatever others do
        assert unpack(tmp_path / f"missing{kind}", folder, limit=0) == folder
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_archive_gives_an_empty_folder(tmp_path, kind):
    assert read(unpack(save(tmp_path, kind, pack(kind)), tmp_path / "folder", limit=0)) == {}


def test_names_with_dots_and_repeated_folders_are_harmless(tmp_path):
    content = tar_bytes(("./", None), ("./a", None), ("./a/b..c", b"1"), ("a", None), ("a//...", b"2"))
    folder = unpack(save(tmp_path, ".tar", content), tmp_path / "folder", limit=LIMIT)
    assert read(folder) == {"a/b..c": b"1", "a/...": b"2"}


def test_a_long_name_and_other_formats_are_read(tmp_path):
    name = "/".join(["long" * 40] * 3)
    for number, form in enumerate((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)):
        archive = save(tmp_path, ".tar", tar_bytes((name, b"x"), format=form))
        assert read(unpack(archive, tmp_path / str(number), limit=1)) == {name: b"x"}


@pytest.mark.parametrize("kind", [".zip", ".tar", ".tar.gz"])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/etc/x", "absolute"),
        ("//server/x", "absolute"),
        ("C:/x", "absolute"),
        ("C:x", "absolute"),
        ("a/C:/x", "absolute"),
        ("../x", r"\.\."),
        ("a/../../x", r"\.\."),
        ("a/b/..", r"\.\."),
        ("..\\x", "backslash"),
        ("a\\b", "backslash"),
        ("n" * 256, "too long"),
        ("/".join(["n" * 99] * 60), "too long"),
        ("a/" * 101 + "x", "deep"),
        (".", "no name"),
    ],
)
def test_names_that_lead_astray_are_refused(tmp_path, kind, name, why):
    shown = re.escape(repr(name[:9])[1:-1])
    assert_refused(tmp_path, kind, pack(kind, ("good", b""), (name, b"x")), f"{shown}.*{why}")


def test_a_null_character_in_a_pax_name_is_refused(tmp_path):
    info = tarfile.TarInfo("short")
    info.pax_headers = {"path": "a\0b"}
    assert_refused(tmp_path, ".tar", tar_bytes(info, format=tarfile.PAX_FORMAT), "null character")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "names", [("a", "a"), ("a", "./a"), ("a", "a/b"), ("a/b", "a"), ("a/b", "a/b/c"), ("a", "a/b/c")]
)
def test_two_members_for_one_path_are_refused(tmp_path, kind, names):
    assert_refused(
        tmp_path, kind, pack(kind, *((name, b"x") for name in names)), f"'{names[1]}' is there twice"
    )


@pytest.mark.parametrize("kind", [".zip", ".tar"])
def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path, kind):
    folder = ("a/", b"") if kind == ".zip" else ("a", None)
    assert_refused(tmp_path, kind, pack(kind, ("a", b"x"), folder), "a.* is there twice")


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (tarfile.SYMTYPE, "is a link"),
        (tarfile.LNKTYPE, "is a link"),
        (tarfile.CHRTYPE, "is neither"),
        (tarfile.BLKTYPE, "is neither"),
        (tarfile.FIFOTYPE, "is neither"),
        (b"Z", "is neither"),
    ],
)
def test_links_and_special_files_in_a_tar_are_refused(tmp_path, kind, why):
    info = tarfile.TarInfo("odd")
    info.type, info.linkname = kind, "good"
    assert_refused(tmp_path, ".tar", tar_bytes(("good", b"x"), info, ("odd/x", b"x")), f"'odd' {why}")


@pytest.mark.parametrize(
    ("kind", "why"),
    [(stat.S_IFLNK, "is a link"), (stat.S_IFIFO, "is neither"), (stat.S_IFCHR, "is neither")],
)
def test_links_and_special_files_in_a_zip_are_refused(tmp_path, kind, why):
    info = zipfile.ZipInfo("odd")
    info.external_attr = (kind | 0o777) << 16
    assert_refused(tmp_path, ".zip", zip_bytes((info, b"/etc")), f"'odd' {why}")


def test_an_encrypted_member_is_refused(tmp_path):
    content = bytearray(zip_bytes(("secret", b"x")))
    content[6] |= 1
    content[content.index(b"PK\1\2") + 8] |= 1
    assert_refused(tmp_path, ".zip", content, "'secret' is encrypted")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_packed_otherwise_than_by_deflate_is_refused(tmp_path, method):
    info = zipfile.ZipInfo("odd")
    info.compress_type = method
    assert_refused(tmp_path, ".zip", zip_bytes((info, b"x")), f"'odd' is packed with method {method}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_is_refused(tmp_path, kind):
    zeros = ("zeros", bytes(LIMIT))
    assert_refused(tmp_path, kind, pack(kind, zeros, ("more", b"x")), "'more' goes beyond")
    assert_refused(tmp_path, kind, pack(kind, zeros, ("more", b"x")), "'zeros' goes beyond", limit=LIMIT - 1)


def test_the_size_that_a_zip_declares_is_not_trusted(tmp_path):
    content = bytearray(zip_bytes(("zeros", bytes(LIMIT))))
    directory = content.index(b"PK\1\2")
    struct.pack_into("<I", content, directory + 24, 10)
    assert_refused(tmp_path, ".zip", content, "corrupted", limit=LIMIT - 1)
    struct.pack_into("<I", content, directory + 24, 2**31)
    assert_refused(tmp_path, ".zip", content, "goes beyond", limit=LIMIT - 1)


def test_a_sparse_bomb_is_refused(tmp_path):
    info = tarfile.TarInfo("sparse")
    info.pax_headers = {
        "GNU.sparse.map": "0,1",
        "GNU.sparse.numblocks": "1",
        "GNU.sparse.size": str(2**40),
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
    }
    assert_refused(tmp_path, ".tar", tar_bytes(info, format=tarfile.PAX_FORMAT), "'sparse' goes beyond")


def test_a_tar_header_that_would_fill_the_memory_is_refused(tmp_path):
    info = tarfile.TarInfo("x")
    info.pax_headers = {"comment": "x" * 2_000_000}
    assert_refused(
        tmp_path, ".tar.gz", gzip.compress(tar_bytes(info, format=tarfile.PAX_FORMAT)), "corrupted"
    )


def test_zeros_without_end_after_the_archive_are_refused(tmp_path):
    assert_refused(tmp_path, ".tar.gz", gzip.compress(tar_bytes(("a", b"x")) + bytes(5_000_000)), "corrupted")


def test_a_negative_size_does_not_loop(tmp_path):
    info = tarfile.TarInfo("again")
    info.size = -512
    header = info.tobuf(tarfile.GNU_FORMAT)
    assert_refused(tmp_path, ".tar", tar_bytes(("a", b"x"))[:1024] + header + bytes(10240), "corrupted")


def test_headers_nested_without_end_are_damage(tmp_path):
    info = tarfile.TarInfo("x")
    info.pax_headers = {"comment": "x"}
    header = info.tobuf(tarfile.PAX_FORMAT)[:-512]  # without that of the member itself
    assert_refused(tmp_path, ".tar", header * 1000 + tar_bytes(("a", b"x")), "corrupted")


@pytest.mark.parametrize("missing", [1, 20])
def test_a_zip_without_its_first_bytes_is_damaged(tmp_path, missing):
    assert_refused(tmp_path, ".zip", zip_bytes(("a", b"x"))[missing:], "corrupted")


def test_a_zip_of_a_later_version_is_damaged(tmp_path):
    content = bytearray(zip_bytes(("a", b"x")))
    content[content.index(b"PK\1\2") + 6] = 99
    assert_refused(tmp_path, ".zip", content, "corrupted")


def test_a_zip_member_beyond_all_bounds_is_damage(tmp_path):
    info = zipfile.ZipInfo("a")
    info.extra = struct.pack("<HHQ", 1, 8, 2**64 - 1)
    content = bytearray(zip_bytes((info, b"x")))
    struct.pack_into("<I", content, content.index(b"PK\1\2") + 42, 2**32 - 1)  # the offset is in the extra
    assert_refused(tmp_path, ".zip", content, "corrupted")


@pytest.mark.parametrize("kind", [".zip", ".tar"])
def test_too_many_members_are_refused(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(_archives, "_MEMBERS", 10)
    members = [(str(number), b"") for number in range(11)]
    assert len(read(unpack(save(tmp_path, kind, pack(kind, *members[:10])), tmp_path / "ten", limit=0))) == 10
    shutil.rmtree(tmp_path / "ten")
    assert_refused(tmp_path, kind, pack(kind, *members), "'10' is one of more than 10 files")


def test_too_many_folders_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_archives, "_MEMBERS", 10)
    assert_refused(tmp_path, ".tar", tar_bytes(("a/" * 10 + "x", b""), ("y", b"")), "more than 10")


def test_another_kind_of_file_is_refused(tmp_path):
    assert_refused(tmp_path, ".rar", b"Rar!", "is not a .zip")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", [b"", b"<html>Not found</html>" * 100])
def test_what_is_no_archive_at_all_is_damaged(tmp_path, kind, content):
    assert_refused(tmp_path, kind, content, "is corrupted or incomplete: delete it and load it again")


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_archive_is_damaged(tmp_path, kind):
    whole = pack(kind, *FILES.items())
    # A plain tar is complete with the first of its blocks of zeros.
    end = len(whole) if kind != ".tar" else len(whole.rstrip(b"\0")) // 512 * 512 + 1024
    cuts = {0, 1, 100, 511, 512, 1024, 1536, end - 513, end - 1, *range(0, end, end // 20)}
    for cut in sorted(cut for cut in cuts if 0 <= cut < end):
        assert_refused(tmp_path, kind, whole[:cut], "is corrupted or incomplete: delete it and load it again")
        os.remove(tmp_path / f"archive{kind}")
        shutil.rmtree(tmp_path / "inner")


def test_a_wrong_header_in_the_middle_of_a_tar_is_damage(tmp_path):
    content = bytearray(tar_bytes(("a", b"x"), ("b", b"x"), ("c", b"x")))
    content[1024] ^= 1  # the first letter of the second name
    assert_refused(tmp_path, ".tar", content, "is corrupted")


@pytest.mark.parametrize(("kind", "from_end"), [(".tar.gz", 8), (".tar.gz", 4), (".tar.bz2", 3)])
def test_a_wrong_checksum_is_damage(tmp_path, kind, from_end):
    content = bytearray(pack(kind, ("a", bytes(1000))))
    content[-from_end] ^= 0x10
    assert_refused(tmp_path, kind, content, "is corrupted")


def test_a_wrong_byte_in_a_zip_is_damage(tmp_path):
    content = bytearray(zip_bytes(("a", b"x")))
    content[content.index(b"PK\1\2") + 16] ^= 1  # the checksum
    assert_refused(tmp_path, ".zip", content, "is corrupted")


@pytest.mark.parametrize("kind", [".zip", ".tar", ".tar.gz", ".tar.bz2"])
@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(data=st.data())
def test_changed_bytes_unpack_or_are_refused(tmp_path, kind, data):
    raw = [("a.txt", b"hello"), ("d/b.bin", bytes(700)), ("d/" + "l" * 120, b"x")]
    content = bytearray(zip_bytes(*raw) if kind == ".zip" else tar_bytes(*raw))
    late = kind.startswith(".tar.") and data.draw(st.booleans())  # else the tar inside is changed
    if late:
        content = bytearray(COMPRESS[kind](bytes(content)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        new = data.draw(
            st.binary(min_size=1, max_size=12) | st.sampled_from([b"../", b"/", b"\xff" * 8, b"5", b"2"])
        )
        content[at : at + len(new)] = new
    if kind.startswith(".tar.") and not late:
        content = COMPRESS[kind](bytes(content))
    here = tmp_path / "here"
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    archive = save(here, kind, content)
    try:
        unpack(archive, here / "folder", limit=LIMIT)
    except DataError:
        assert set(os.listdir(here)) <= {archive.name, "folder.lock"}
    else:
        assert sorted(os.listdir(here)) == [archive.name, "folder"]
        assert not any(path.is_symlink() for path in (here / "folder").rglob("*"))
    assert os.listdir(tmp_path) == ["here"]


def test_a_full_disk_is_an_os_error_with_the_folder(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_archives, "_make_folders", full)
    archive = save(tmp_path, ".zip", zip_bytes(("a", b"x")))
    with pytest.raises(OSError, match=r"cannot unpack .*archive\.zip: No space left on device: .*folder"):
        unpack(archive, tmp_path / "folder", limit=LIMIT)
    assert not (tmp_path / "folder.unpacking").exists()


def test_a_missing_archive_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.zip"):
        unpack(tmp_path / "missing.zip", tmp_path / "folder", limit=LIMIT)
    assert set(os.listdir(tmp_path)) <= {"folder.lock"}


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / "folder.unpacking" / "old").mkdir(parents=True)
    archive = save(tmp_path, ".zip", zip_bytes(("a", b"x")))
    assert read(unpack(archive, tmp_path / "folder", limit=LIMIT)) == {"a": b"x"}
    assert sorted(os.listdir(tmp_path)) == ["archive.zip", "folder"]


def test_a_second_process_waits_and_takes_what_the_first_made(tmp_path):
    archive = save(tmp_path, ".zip", zip_bytes(("a", b"from the archive")))
    folder = tmp_path / "folder"
    program = "import sys; from pathlib import Path; from dcs.data._archives import unpack\n"
    program += "print(unpack(Path(sys.argv[1]), Path(sys.argv[2]), limit=100))"
    with locked(folder, "testing"):
        process = subprocess.Popen(
            [sys.executable, "-c", program, archive, folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr.readline() == "waiting for another process that is unpacking archive.zip\n"
        folder.mkdir()
        (folder / "a").write_bytes(b"from the first")
    assert process.communicate(timeout=20) == (f"{folder}\n", "")
    assert read(folder) == {"a": b"from the first"}
