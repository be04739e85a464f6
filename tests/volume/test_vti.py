"""VTK images of XML: files that VTK 9 wrote, in each of its encodings, with its own values and positions."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import DamagedSourceError, UnreadableSourceError

VOXELS = np.arange(12, dtype=np.int16).reshape(2, 2, 3) * 300 - 999
PLACES = {(0, 0, 0): (10.0, -20.5, 30.0), (1, 1, 2): (10.75, -21.5, 32.0)}  # by vtkImageData, in its own axes
IMAGE = (
    b'<ImageData WholeExtent="1 3 0 1 0 1" Origin="10 -20 30" Spacing="0.5 0.75 2" Direction="0 1 0 -1 0 0 0 0 1">'
    b'<Piece Extent="1 3 0 1 0 1"><PointData Scalars="v"><DataArray type="Float32" Name="other"/>'
    b'<DataArray type="Int16" Name="v" format="%b" offset="0">%b</DataArray></PointData></Piece></ImageData>'
)
ZLIB = b"AQAAAACAAAAYAAAAIQAAAA==eF6T/OP6t/Df3P8nGb4yKjL7slSyLmW7yP6XAwCXggqd"
LZMA = (
    b"AwAAAAgAAAAAAAAAPAAAADwAAAA8AAAA/Td6WFoAAAFpIt42AsAMCCEBFgCe23ypAQAHGfxF/XH+nf8ADigNzwABHAhEYCrIkEKZDQEAAAAA"
    b"AVla/Td6WFoAAAFpIt42AsAMCCEBFgCe23ypAQAHyQD1ASEDTQQAPKGGIAABHAhEYCrIkEKZDQEAAAAAAVla/Td6WFoAAAFpIt42AsAMCCEB"
    b"FgCe23ypAQAHeQWlBtEH/QgAM9D6dgABHAhEYCrIkEKZDQEAAAAAAVla"
)
RAW = b"\0\0\0\0\0\0\0\x18\xfc\x19\xfdE\xfeq\xff\x9d\0\xc9\x01\xf5\x03!\x04M\x05y\x06\xa5\x07\xd1\x08\xfd"


def file(image, fields=b"", behind=b""):
    return b'<?xml version="1.0"?>\n<VTKFile type="ImageData" %b>%b%b</VTKFile>' % (fields, image, behind)


FILES = {
    "ascii": file(IMAGE % (b"ascii", b"  -999 -699 -399 -99 201 501\n801 1101 1401 1701 2001 2301")),
    "zlib": file(IMAGE % (b"binary", b"\n  " + ZLIB + b"\n"), b'compressor="vtkZLibDataCompressor"'),
    "lzma": file(
        IMAGE % (b"appended", b""),
        b'compressor="vtkLZMADataCompressor"',
        b'<AppendedData encoding="base64">\n   _%b\n  </AppendedData>' % LZMA,
    ),
    "raw": file(
        IMAGE % (b"appended", b""),
        b'byte_order="BigEndian" header_type="UInt64"',
        b'<AppendedData encoding="raw">\n   _%b\n  </AppendedData>' % RAW,
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_voxels_and_positions_are_those_of_vtk(tmp_path, name):
    (tmp_path / "a.vti").write_bytes(FILES[name])
    with seqpipe.open(tmp_path / "a.vti") as volume:
        assert volume.info.format == "vti"
        np.testing.assert_array_equal(volume.sequence().data[..., 0], VOXELS)
        np.testing.assert_array_equal(volume[1:2, :, 1:3].data[..., 0], VOXELS[1:, :, 1:])
        for voxel, place in PLACES.items():
            np.testing.assert_allclose((volume.affine @ [*voxel, 1])[:3], np.array(place) * [-1, -1, 1])


def test_values_of_cells_lie_between_points():
    image = FILES["ascii"].replace(b"PointData", b"CellData").replace(b"1 3 0 1 0 1", b"1 4 0 2 0 2")
    with seqpipe.open(image) as volume:
        np.testing.assert_array_equal(volume.sequence().data[..., 0], VOXELS)
        np.testing.assert_allclose((volume.affine @ [0, 0, 0, 1])[:3], [-10.375, 20.75, 31])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (FILES["zlib"].replace(b"ZLib", b"LZ4"), "allowed: vtkZLibDataCompressor or vtkLZMADataCompressor"),
        (FILES["zlib"].replace(b"Int16", b"String"), r"'type' is 'String'; allowed: Int8, Int16"),
        (file(b"<PolyData/>").replace(b"ImageData", b"PolyData"), "this is VTK's PolyData without an image"),
        (FILES["ascii"][:200], "the XML is damaged"),
        (FILES["ascii"].replace(b"0 1 0 1", b"0 1 1 0"), "a first index of at most the last one"),
    ],
)
def test_other_files_are_refused(data, message):
    with pytest.raises(UnreadableSourceError, match=message):
        seqpipe.open(data)
    with pytest.raises(UnreadableSourceError, match="there is no array 'gone'"):
        seqpipe.open(FILES["ascii"], key="gone")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (FILES["ascii"].replace(b"2301", b""), "promises 12 values, and there are 11"),
        (FILES["ascii"].replace(b"2301", b"many"), "the voxels are not numbers"),
        (FILES["zlib"].replace(b"eF6T", b"eF6A"), "the compressed voxels are damaged"),
        (FILES["raw"].replace(RAW, RAW[:4]), "bytes, and the extent needs 24"),
        (FILES["lzma"].replace(LZMA, b"////" + LZMA[4:]), "blocks of 8 bytes are more than"),
    ],
)
def test_damaged_voxels_are_told(data, message):
    with pytest.raises(DamagedSourceError, match=message), seqpipe.open(data) as volume:
        volume.sequence()
