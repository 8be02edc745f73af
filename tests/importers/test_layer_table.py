"""Layer table CSV: docs/sources/interface.md, published parameter model of docs/sources/model.md 5."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rramalloc.errors import RramallocError, SpecError
from rramalloc.importers import load
from rramalloc.importers.layer_table import read_layer_table
from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Pool

pytestmark = pytest.mark.quick

HEADER = "name,c_in,c_out,w_out,h_out,k,s,p,k_pool,s_pool,p_pool"
FIRST = "conv1,3,8,8,8,3,1,1,2,2,0"
# C_i, C_o, W_o, K_c, S_c, P_c, K_p, S_p of every layer
ALEXNET = [
    (3, 96, 55, 11, 4, 0, 3, 2),
    (96, 256, 27, 5, 1, 2, 3, 2),
    (256, 384, 13, 3, 1, 1, 1, 1),
    (384, 384, 13, 3, 1, 1, 1, 1),
    (384, 256, 13, 3, 1, 1, 3, 2),
]
VGG_A = [
    (3, 64, 224, 3, 1, 1, 2, 2),
    (64, 128, 112, 3, 1, 1, 2, 2),
    (128, 256, 56, 3, 1, 1, 1, 1),
    (256, 256, 56, 3, 1, 1, 2, 2),
    (256, 512, 28, 3, 1, 1, 1, 1),
    (512, 512, 28, 3, 1, 1, 2, 2),
    (512, 512, 14, 3, 1, 1, 1, 1),
    (512, 512, 14, 3, 1, 1, 2, 2),
]


def table(folder: Path, *rows: str, header: str = HEADER) -> Path:
    path = folder / "table.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("layers", "extent", "last"), [(ALEXNET, 227, (256, 6, 6)), (VGG_A, 224, (512, 7, 7))]
)
def test_published_tables_are_expressible(
    tmp_path: Path, layers: list[tuple[int, ...]], extent: int, last: tuple[int, int, int]
) -> None:
    """docs/sources/model.md 9: AlexNet with input 227 and P_c = 0 2 1 1 1; VGG-A with input 224."""
    rows = [
        f"conv{i},{c_in},{c_out},{w},{w},{k},{s},{p},{k_pool},{s_pool},0"
        for i, (c_in, c_out, w, k, s, p, k_pool, s_pool) in enumerate(layers, start=1)
    ]
    network = load(table(tmp_path, *rows))
    assert network.shapes["input"] == (3, extent, extent)
    assert network.shapes[network.nodes[-1].name] == last
    assert [stage.name for stage in network.stages] == [f"conv{i}" for i in range(1, len(layers) + 1)]


def test_a_row_is_a_conv_and_a_pool(tmp_path: Path) -> None:
    network = read_layer_table(table(tmp_path, FIRST, "conv2,8,16,4,2,1,1,0,1,1,0".replace("4,2", "4,4")))
    assert [node.name for node in network.nodes] == ["input", "conv1", "conv1_pool", "conv2"]
    assert network.nodes[1] == Conv(
        name="conv1", inputs=("input",), out_channels=8, kernel=(3, 3), pads=(1, 1, 1, 1)
    )
    assert network.nodes[2] == Pool(
        name="conv1_pool", op="maxpool", inputs=("conv1",), kernel=(2, 2), stride=(2, 2)
    )
    assert network.name == "table"


@pytest.mark.parametrize(
    ("rows", "header", "place", "reason"),
    [
        ([], HEADER, "table.csv", "no layers"),
        ([FIRST], HEADER.replace(",p,", ","), "line 1", "'p' is missing"),
        ([FIRST], HEADER + ",k", "line 1", "'k' appears 2 times"),
        ([FIRST + ",1"], HEADER, "line 2", "12 cells, the header has 11"),
        (['"conv1,3'], HEADER, "line 2", "not CSV"),
        ([FIRST, "conv1_pool,8,8,4,4,1,1,0,1,1,0"], HEADER, "line 3: column 'name'", "line 2"),
        ([FIRST, "conv2,9,8,4,4,3,1,1,1,1,0"], HEADER, "line 3: column 'c_in'", "must be 8"),
        ([FIRST, "conv2,8,8,4,5,3,1,1,1,1,0"], HEADER, "line 3: column 'h_out'", "4 x 4 pixels"),
        ([FIRST, "conv2,8,8,1,1,9,1,1,1,1,0"], HEADER, "column 'k'", "at most 6"),
        (["a,3,8,1,1,1,1,1,1,1,0"], HEADER, "column 'h_out'", "must be 3"),
        (["a,3,8,2,2,1,1,0,1,1,1"], HEADER, "column 'p_pool'", "below k_pool"),
        *(
            ([FIRST.replace("3,1,1,2", f"{bad},1,1,2")], HEADER, "line 2: column 'k'", "got")
            for bad in (
                "0",
                "-1",
                "1.5",
                "nan",
                "inf",
                "",
                "x",
                "0x3",
                "3_0",
                "1e3",
                "2147483648",
                "9" * 50,
                "\uff13",
            )
        ),
        (["a,1,1,2147483647,1,1,9,0,1,1,0"], HEADER, "column 'w_out'", "the limit is"),
    ],
)
def test_faults_name_line_and_column(
    tmp_path: Path, rows: list[str], header: str, place: str, reason: str
) -> None:
    with pytest.raises(SpecError) as caught:
        read_layer_table(table(tmp_path, *rows, header=header))
    assert place in caught.value.where
    assert reason in caught.value.reason
    assert len(str(caught.value)) < 600


@given(st.text(max_size=200) | st.text(alphabet='0123456789,\n"nameck_ spo', max_size=300))
def test_any_text_gives_a_network_or_a_typed_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "table.csv"
    path.write_text(f"{HEADER}\n{text}", encoding="utf-8", errors="replace")
    with contextlib.suppress(RramallocError):
        assert isinstance(read_layer_table(path), Network)
