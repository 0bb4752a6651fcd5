"""Disks of nodes go with their nodes; the folder that others share stays."""

from pathlib import Path

from workers.nodes.disks import remove_disks, store_variables
from workers.nodes.node_type import NodeType


def test_a_disk_goes_with_its_node(tmp_path: Path) -> None:
    for name in ("shared", "disk-1", "disk-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    remove_disks(tmp_path, {"disk-2"})
    assert {path.name for path in tmp_path.iterdir()} == {"shared", "disk-2"}
    remove_disks(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"shared"}
    remove_disks(tmp_path / "nothing")


def test_only_a_type_with_a_disk_reads_no_other_folder(tmp_path: Path) -> None:
    assert store_variables(NodeType(name="n"), tmp_path) == {}
    own = store_variables(NodeType(name="n", weights_gb=2.5), tmp_path)
    assert own == {
        "SLUICE_WEIGHTS": str(tmp_path),
        "SLUICE_WEIGHTS_GB": "2.5",
        "SLUICE_WEIGHTS_OWN": "1",
    }
