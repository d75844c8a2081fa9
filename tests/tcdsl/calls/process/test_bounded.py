"""Tables of bounded size: what is left of a full one, whoever adds to it at the moment."""

from __future__ import annotations

from tcdsl.calls.process.bounded import thinned


def test_another_thread_may_add_to_a_table_that_is_thinned() -> None:
    class Key:
        """One whose hash lets others run."""

        def __hash__(self) -> int:
            if len(table) == 8:
                table["another thread's"] = 8
            return id(self)

    table: dict[object, int] = {}
    table |= {Key(): n for n in range(8)}
    assert [*thinned(table, 8).values()] == [0, 2, 4, 6]
    assert table["another thread's"] == 8
