"""The known data sets: what they are and where their files come from."""

from collections.abc import Mapping
from dataclasses import dataclass

from dcs.data._digits import read_pendigits, read_usps_libsvm
from dcs.data._download import Remote
from dcs.data._layouts import (
    FASHION,
    TEN_DIGITS,
    TONES,
    TONES_RATE,
    Layout,
    make_tones,
    read_cifar_layout,
    read_digits_layout,
    read_esc50_layout,
    read_idx_layout,
    read_image_classes_layout,
    read_pair_layout,
    read_tiny_imagenet_layout,
    read_usps_hdf5_layout,
)


@dataclass(frozen=True)
class Entry:
    """A known data set."""

    name: str
    title: str
    shape: tuple[int, ...]
    classes: int
    train: int
    test: int
    scaling: str
    citation: str
    licence: str
    homepage: str
    layouts: tuple[Layout, ...] = ()
    folders: tuple[str, ...] = ()  # below the root, in this order
    remotes: tuple[Remote, ...] = ()
    unpacked_size: int = 0  # most bytes an archive may hold, if the one remote file is one
    unpacked_md5: str = ""  # of all its files, where the archive itself has no fixed checksum
    note: str = ""
    shipped_with: str = ""  # the package that data without files comes with
    rate: int | None = None  # of recordings, in Hz
    folds: bool = False  # whether the test split is one of several folds

    @property
    def download_size(self) -> int:
        """Total size of the download in bytes."""
        return sum(remote.size for remote in self.remotes)


def _idx_layout(classes: tuple[str, ...]) -> Layout:
    stems = {"train": "train", "test": "t10k"}
    files = {
        f"{split} {what}": (
            f"{stem}-{what}-idx{ndim}-ubyte.gz",
            f"{stem}-{what}-idx{ndim}-ubyte",
            f"{stem}-{what}.idx{ndim}-ubyte",
        )
        for split, stem in stems.items()
        for what, ndim in (("images", 3), ("labels", 1))
    }
    return Layout(files, lambda found, *_: read_idx_layout(found, classes))


def _idx_remotes(mirrors: tuple[str, ...], files: Mapping[str, tuple[str, int]]) -> tuple[Remote, ...]:
    return tuple(
        Remote(f"{name}-ubyte.gz", tuple(f"{mirror}/{name}-ubyte.gz" for mirror in mirrors), md5, size)
        for name, (md5, size) in files.items()
    )


def _remotes(folder: str, *files: tuple[str, str, int]) -> tuple[Remote, ...]:
    return tuple(Remote(name, (f"{folder}/{name}",), md5, size) for name, md5, size in files)


_ENTRIES = (
    Entry(
        name="digits",
        title="Optical recognition of handwritten digits (the test part of it)",
        shape=(8, 8),
        classes=10,
        train=1200,
        test=597,
        scaling="divided by 16: 0 to 1",
        citation="E. Alpaydin, C. Kaynak (1998): Optical Recognition of Handwritten Digits. UCI Machine "
        "Learning Repository. doi:10.24432/C50P49",
        licence="CC BY 4.0",
        homepage="https://archive.ics.uci.edu/dataset/80",
        layouts=(Layout({}, read_digits_layout),),
        note="ships with scikit-learn: needs no file; the split (the first 1,200) is ours",
        shipped_with="scikit-learn",
    ),
    Entry(
        name="mnist",
        title="MNIST handwritten digits",
        shape=(28, 28),
        classes=10,
        train=60000,
        test=10000,
        scaling="divided by 255: 0 to 1",
        citation="Y. LeCun, L. Bottou, Y. Bengio, P. Haffner (1998): Gradient-based learning applied to "
        "document recognition. Proceedings of the IEEE 86(11)",
        licence="CC BY-SA 3.0",
        homepage="http://yann.lecun.com/exdb/mnist/",
        layouts=(_idx_layout(TEN_DIGITS),),
        folders=("mnist", "MNIST/raw", "mnist/MNIST/raw"),
        remotes=_idx_remotes(
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist",
                "https://storage.googleapis.com/cvdf-datasets/mnist",
            ),
            {
                "train-images-idx3": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", 9912422),
                "train-labels-idx1": ("d53e105ee54ea40749a09fcbcd1e9432", 28881),
                "t10k-images-idx3": ("9fb629c4189551a2d022fa330f9573f3", 1648877),
                "t10k-labels-idx1": ("ec29112dd5afa0611ce80d1b7f02629c", 4542),
            },
        ),
        note="plain and gzipped IDX files are read",
    ),
    Entry(
        name="usps",
        title="USPS handwritten digits",
        shape=(16, 16),
        classes=10,
        train=7291,
        test=2007,
        scaling="brought to 0 to 1 from LIBSVM's -1 to 1",
        citation="J. J. Hull (1994): A database for handwritten text recognition research. IEEE "
        "Transactions on Pattern Analysis and Machine Intelligence 16(5)",
        licence="none is stated; for research",
        homepage="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps",
        layouts=(
            Layout({"both": ("usps.h5",)}, read_usps_hdf5_layout),
            Layout(
                {"train": ("usps.bz2", "usps"), "test": ("usps.t.bz2", "usps.t")},
                lambda files, *_: read_pair_layout(read_usps_libsvm, files),
            ),
        ),
        folders=("usps", "."),
        remotes=_remotes(
            "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass",
            ("usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197", 6579383),
            ("usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118", 1831726),
        ),
        note="LIBSVM's labels 1 to 10 become 0 to 9; usps.h5 needs the extra hdf5",
    ),
    Entry(
        name="pendigits",
        title="Pen-based recognition of handwritten digits",
        shape=(2, 8),
        classes=10,
        train=7494,
        test=3498,
        scaling="divided by 100: 0 to 1",
        citation="E. Alpaydin, F. Alimoglu (1996): Pen-Based Recognition of Handwritten Digits. UCI Machine "
        "Learning Repository. doi:10.24432/C5MG6K",
        licence="CC BY 4.0",
        homepage="https://archive.ics.uci.edu/dataset/81",
        layouts=(
            Layout(
                {"train": ("pendigits.tra",), "test": ("pendigits.tes",)},
                lambda files, *_: read_pair_layout(read_pendigits, files),
            ),
        ),
        folders=("pendigits", "."),
        remotes=_remotes(
            "https://archive.ics.uci.edu/ml/machine-learning-databases/pendigits",
            ("pendigits.tra", "8496aa7aa9bfc0e11f56ed4eba23d079", 502098),
            ("pendigits.tes", "275078cd1761461e3cf39a3926c6ca2f", 234366),
        ),
        note="8 points as 2 channels, x and y; the files hold x1, y1, ..., x8, y8, which the paper most "
        "likely read flat: x.transpose(1, 2).flatten(1)",
    ),
    Entry(
        name="fashion-mnist",
        title="Fashion-MNIST articles of clothing",
        shape=(28, 28),
        classes=10,
        train=60000,
        test=10000,
        scaling="divided by 255: 0 to 1",
        citation="H. Xiao, K. Rasul, R. Vollgraf (2017): Fashion-MNIST: a novel image dataset for "
        "benchmarking machine learning algorithms. arXiv:1708.07747",
        licence="MIT",
        homepage="https://github.com/zalandoresearch/fashion-mnist",
        layouts=(_idx_layout(FASHION),),
        folders=("fashion-mnist", "FashionMNIST/raw", "fashion-mnist/FashionMNIST/raw"),
        remotes=_idx_remotes(
            (
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
                "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
            ),
            {
                "train-images-idx3": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26421880),
                "train-labels-idx1": ("25c81989df183df01b3e8a0aad5dffbe", 29515),
                "t10k-images-idx3": ("bef4ecab320f06d8554ea6380940ec79", 4422102),
                "t10k-labels-idx1": ("bb300cfdad3c16e7a12a480ee83cd310", 5148),
            },
        ),
        note="its files have the names of MNIST's: keep them in a folder of their own",
    ),
    Entry(
        name="cifar10",
        title="CIFAR-10 colour photographs",
        shape=(3, 32, 32),
        classes=10,
        train=50000,
        test=10000,
        scaling="divided by 255: 0 to 1",
        citation="A. Krizhevsky (2009): Learning Multiple Layers of Features from Tiny Images. Technical "
        "report, University of Toronto",
        licence="none is stated; for research",
        homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
        layouts=(
            Layout(
                {
                    "classes": ("batches.meta",),
                    **{f"train {number}": (f"data_batch_{number}",) for number in range(1, 6)},
                    "test": ("test_batch",),
                },
                lambda files, *_: read_cifar_layout(files, "classes", b"label_names", b"labels"),
            ),
            Layout({"train": ("train",), "test": ("test",)}, read_image_classes_layout),
        ),
        folders=(
            "cifar10/cifar-10-batches-py",
            "cifar10/unpacked/cifar-10-batches-py",
            "cifar-10-batches-py",
            "cifar10",
        ),
        remotes=_remotes(
            "https://www.cs.toronto.edu/~kriz",
            ("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", 170498071),
        ),
        unpacked_size=300 * 2**20,
        note="also read as train/CLASS/*.jpg and test/CLASS/*.jpg, which is lossy",
    ),
    Entry(
        name="cifar100",
        title="CIFAR-100 colour photographs",
        shape=(3, 32, 32),
        classes=100,
        train=50000,
        test=10000,
        scaling="divided by 255: 0 to 1",
        citation="A. Krizhevsky (2009): Learning Multiple Layers of Features from Tiny Images. Technical "
        "report, University of Toronto",
        licence="none is stated; for research",
        homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
        layouts=(
            Layout(
                {"classes": ("meta",), "train": ("train",), "test": ("test",)},
                lambda files, *_: read_cifar_layout(files, "classes", b"fine_label_names", b"fine_labels"),
            ),
        ),
        folders=(
            "cifar100/cifar-100-python",
            "cifar100/unpacked/cifar-100-python",
            "cifar-100-python",
            "cifar100",
        ),
        remotes=_remotes(
            "https://www.cs.toronto.edu/~kriz",
            ("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85", 169001437),
        ),
        unpacked_size=300 * 2**20,
        note="the 100 fine labels",
    ),
    Entry(
        name="tiny-imagenet",
        title="Tiny-ImageNet colour photographs",
        shape=(3, 64, 64),
        classes=200,
        train=100000,
        test=10000,
        scaling="divided by 255: 0 to 1",
        citation="Y. Le, X. Yang (2015): Tiny ImageNet Visual Recognition Challenge. Stanford CS231N",
        licence="for research, as ImageNet",
        homepage="http://cs231n.stanford.edu/",
        layouts=(
            Layout(
                {
                    "train": ("train",),
                    "validation": ("val/images",),
                    "annotations": ("val/val_annotations.txt",),
                    "ids": ("wnids.txt",),
                    "words": ("words.txt",),
                },
                read_tiny_imagenet_layout,
            ),
        ),
        folders=(
            "tiny-imagenet/tiny-imagenet-200",
            "tiny-imagenet/unpacked/tiny-imagenet-200",
            "tiny-imagenet-200",
            "tiny-imagenet",
        ),
        remotes=_remotes(
            "http://cs231n.stanford.edu",
            ("tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de", 248100043),
        ),
        unpacked_size=2**30,
        note="the official validation images are the test split, as in the paper; labels follow the sorted "
        "WordNet ids",
    ),
    Entry(
        name="esc50",
        title="ESC-50 environmental sounds",
        shape=(220500,),
        classes=50,
        train=1600,
        test=400,
        scaling="-1 to 1, mono, 44.1 kHz, 5 s",
        citation="K. J. Piczak (2015): ESC: Dataset for Environmental Sound Classification. ACM Multimedia",
        licence="CC BY-NC 3.0",
        homepage="https://github.com/karolpiczak/ESC-50",
        layouts=(Layout({"table": ("meta/esc50.csv",), "audio": ("audio",)}, read_esc50_layout),),
        folders=("esc50", "esc50/ESC-50-master", "esc50/unpacked/ESC-50-master", "ESC-50-master", "ESC-50"),
        remotes=(
            Remote(
                "ESC-50-master.zip",
                ("https://github.com/karoldvl/ESC-50/archive/master.zip",),
                None,
                645_000_000,
            ),
        ),
        unpacked_size=2 * 2**30,
        unpacked_md5="eee5ff5fe5720afee606cc6f6c0745bd",
        note="five official folds; fold 5 is the test split unless fold= says otherwise",
        rate=44100,
        folds=True,
    ),
    Entry(
        name="tones",
        title="Tones in white noise",
        shape=(TONES_RATE // 2,),
        classes=6,
        train=TONES * 4 // 5,
        test=TONES // 5,
        scaling="as much noise as signal, mono, 8 kHz, 0.5 s",
        citation="synthetic, needs no citation",
        licence="Apache-2.0",
        homepage="",
        layouts=(Layout({}, make_tones),),
        note="made on the spot: needs no file; five folds, as esc50 has, for which it is a quick stand-in",
        shipped_with="dcs-learn",
        rate=TONES_RATE,
        folds=True,
    ),
)

CATALOGUE: Mapping[str, Entry] = {entry.name: entry for entry in _ENTRIES}
