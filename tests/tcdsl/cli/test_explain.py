"""`tcdsl explain`: the row of a code, and the reference."""

from __future__ import annotations

from click.testing import CliRunner, Result

from tcdsl.cli import main


def explain(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["explain", *args])
    assert result.exit_code == code, result.output
    return result


def test_a_code_has_its_fault_its_cure_and_an_example() -> None:
    assert explain("tc104").stdout == (
        "TC104: a reduction index under `=`\n"
        "  cure: `+=!` to sum, or the index on the left too\n"
        "  for example: O(i) = B(i, k)\n"
    )
    assert "  for example" not in explain("TC016").stdout


def test_an_unknown_code_is_wrong_usage() -> None:
    assert "there is no code 'TC999'" in explain("TC999", code=2).stderr


def test_without_a_code_it_prints_the_reference() -> None:
    assert explain().stdout.startswith("# The language\n")
