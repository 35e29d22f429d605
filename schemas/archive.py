"""What a `model.pt2` may hold: the inspection that runs before torch sees a byte of it.

torch's own loader is no guard: it unpickles weights and constants that ask for it, retries a failed safe load
unsafely, evaluates shape expressions as Python and opens native libraries found in the archive. So the archive is
parsed here, everything outside a short allow-list is refused, and torch is given a new archive that is written
from the inspected parts alone, without the one pickle torch writes (sample inputs, which nothing needs).
The graph's JSON is checked by `program.py`. No torch here.
"""

import io
import pickletools
import re
import zipfile
from dataclasses import dataclass

from schemas.program import ProgramError, checked_payloads, checked_program

SAMPLE_INPUTS = "data/sample_inputs/model.pt"
_PROGRAM = "models/model.json"
_PAYLOADS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
_PLAIN = (
    *("archive_format", "archive_version", "byteorder"),
    *("version", ".data/version", ".format_version", ".storage_alignment", ".data/serialization_id"),
)
_TENSOR = re.compile(r"data/(weights/weight|constants/tensor)_[0-9]{1,9}\Z")
_NESTED = re.compile(r"(data\.pkl|data/[0-9]{1,9}|byteorder|version|\.format_version|\.storage_alignment)\Z")
_NEW_ROOT = "model"
_LINK_MODE = 0o120000
_MAX_ENTRIES = 100_000
_EPOCH = (1980, 1, 1, 0, 0, 0)

# All that a tuple of tensors needs; a subset of what torch's weights_only unpickler allows.
_GLOBALS = frozenset(
    {"torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter", "collections OrderedDict"}
    | {f"torch {kind}Storage" for kind in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Byte")}
    | {"torch CharStorage", "torch BoolStorage"}
)
_REFUSED_OPCODES = frozenset(
    {"STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "BUILD", "PERSID"}
)


class ArchiveError(ValueError):
    """A `model.pt2` that is not loaded; the message says which entry, and why."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The inspected parts. `sample_inputs` is the nested archive left out of `entries`, where there was one."""

    entries: dict[str, bytes]
    sample_inputs: bytes | None

    def to_bytes(self) -> bytes:
        """A new archive of the inspected parts; the same parts give the same bytes."""
        return write_archive({**self.entries, SAMPLE_INPUTS: b""})


def inspect_archive(data: bytes) -> Archive:
    """Reads a `model.pt2` as `torch.export.save` writes it.

    Raises:
        ArchiveError: cut short, compressed or overlapping entries, links, paths that lead out, an entry that
            torch.export does not write, a pickle beyond tensors, or a program that `program.py` refuses.
    """
    entries = _read_zip(data, "the archive")
    sample_inputs = entries.pop(SAMPLE_INPUTS, None) or None
    if sample_inputs is not None:
        _check_nested(sample_inputs)
    for name in entries:
        if name not in (_PROGRAM, *_PAYLOADS, *_PLAIN) and not _TENSOR.match(name):
            raise ArchiveError(f"entry {name!r} is none that torch.export writes for a program of tensors")
    try:
        for name in _PAYLOADS:
            entries[name] = checked_payloads(entries[name], name)
        entries[_PROGRAM] = checked_program(entries[_PROGRAM])
    except KeyError as error:
        raise ArchiveError(f"entry {error.args[0]!r} is missing") from None
    except ProgramError as error:
        raise ArchiveError(str(error)) from None
    return Archive(entries, sample_inputs)


def write_archive(entries: dict[str, bytes]) -> bytes:
    """An uncompressed zip with a fixed time and order: the same entries give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(entries):
            archive.writestr(zipfile.ZipInfo(f"{_NEW_ROOT}/{name}", _EPOCH), entries[name])
    return buffer.getvalue()


def _read_zip(data: bytes, what: str) -> dict[str, bytes]:
    """Content by name without the root folder, which must be the same for all."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            _check_sizes(infos, len(data), what)
            roots = {info.filename.partition("/")[0] for info in infos}
            if len(roots) != 1:
                raise ArchiveError(f"{what} must have one root folder, not {len(roots)}")
            found: dict[str, bytes] = {}
            for info in infos:
                name = _checked_name(info, what)
                if name in found:
                    raise ArchiveError(f"{what} holds {name!r} twice")
                found[name] = archive.read(info)
    # NotImplementedError is zipfile's word for a compression or encryption that it does not know.
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError) as error:
        raise ArchiveError(f"{what} is not a whole zip archive: {error}") from None
    return found


def _check_sizes(infos: list[zipfile.ZipInfo], size: int, what: str) -> None:
    """Uncompressed entries that together fit the file cannot be a bomb: neither by ratio nor by overlap."""
    if not infos or len(infos) > _MAX_ENTRIES:
        raise ArchiveError(f"{what} has {len(infos)} entries")
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ArchiveError(f"entry {info.filename!r} of {what} is compressed, which torch never does")
    if sum(info.file_size for info in infos) > size:
        raise ArchiveError(f"the entries of {what} overlap: together they are larger than it")


def _checked_name(info: zipfile.ZipInfo, what: str) -> str:
    name = info.filename
    parts = name.split("/")
    if "\\" in name or "\0" in info.orig_filename or any(part in ("", ".", "..") for part in parts):
        raise ArchiveError(f"entry {name!r} of {what} leads out of it, or is no file")
    if (info.external_attr >> 16) & 0o170000 == _LINK_MODE:
        raise ArchiveError(f"entry {name!r} of {what} is a link")
    return "/".join(parts[1:])


def _check_nested(data: bytes) -> None:
    entries = _read_zip(data, SAMPLE_INPUTS)
    for name in entries:
        if not _NESTED.match(name) and name not in _PLAIN:
            raise ArchiveError(f"entry {name!r} of {SAMPLE_INPUTS} is none that torch.save writes for tensors")
    if "data.pkl" not in entries:
        raise ArchiveError(f"{SAMPLE_INPUTS} has no data.pkl")
    _check_pickle(entries["data.pkl"])


def _check_pickle(data: bytes) -> None:
    """Reads the opcodes without running them."""
    where = f"data.pkl of {SAMPLE_INPUTS}"
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "GLOBAL" and argument not in _GLOBALS:
                raise ArchiveError(f"the pickle {where} names {argument!r}: only tensors are allowed")
            if opcode.name in _REFUSED_OPCODES:
                raise ArchiveError(f"the pickle {where} uses {opcode.name}: only tensors are allowed")
            if opcode.name == "STOP":
                return
    except ValueError as error:
        if isinstance(error, ArchiveError):
            raise
        raise ArchiveError(f"{where} is not a whole pickle: {error}") from None
