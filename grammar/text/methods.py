# ruff: noqa: F821
# mypy: disable-error-code="name-defined"
"""What methods of dataclasses do, for 0, 1, ... fields, as code that lies in Python's own files.

To compile a text takes a tenth to a third of a millisecond, and a first call asks for fifty. Here
fields are called f0, f1, ...; whoever takes a function's code gives it the names of a class's, and
s0, s1, ..., which set them and return None, so that `or` calls one after the other.
"""

from __future__ import annotations

# fmt: off
INIT = (
    lambda x: None,
    lambda x, f0: s0(x, f0),
    lambda x, f0, f1: s0(x, f0) or s1(x, f1),
    lambda x, f0, f1, f2: s0(x, f0) or s1(x, f1) or s2(x, f2),
    lambda x, f0, f1, f2, f3: s0(x, f0) or s1(x, f1) or s2(x, f2) or s3(x, f3),
    lambda x, f0, f1, f2, f3, f4: s0(x, f0) or s1(x, f1) or s2(x, f2) or s3(x, f3) or s4(x, f4),
    lambda x, f0, f1, f2, f3, f4, f5: s0(x, f0) or s1(x, f1) or s2(x, f2) or s3(x, f3) or
        s4(x, f4) or s5(x, f5),
    lambda x, f0, f1, f2, f3, f4, f5, f6: s0(x, f0) or s1(x, f1) or s2(x, f2) or s3(x, f3) or
        s4(x, f4) or s5(x, f5) or s6(x, f6),
    lambda x, f0, f1, f2, f3, f4, f5, f6, f7: s0(x, f0) or s1(x, f1) or s2(x, f2) or s3(x, f3) or
        s4(x, f4) or s5(x, f5) or s6(x, f6) or s7(x, f7),
    lambda x, f0, f1, f2, f3, f4, f5, f6, f7, f8: s0(x, f0) or s1(x, f1) or s2(x, f2) or
        s3(x, f3) or s4(x, f4) or s5(x, f5) or s6(x, f6) or s7(x, f7) or s8(x, f8),
    lambda x, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9: s0(x, f0) or s1(x, f1) or s2(x, f2) or
        s3(x, f3) or s4(x, f4) or s5(x, f5) or s6(x, f6) or s7(x, f7) or s8(x, f8) or s9(x, f9),
    lambda x, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10: s0(x, f0) or s1(x, f1) or s2(x, f2) or
        s3(x, f3) or s4(x, f4) or s5(x, f5) or s6(x, f6) or s7(x, f7) or s8(x, f8) or s9(x, f9) or
        s10(x, f10),
    lambda x, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11: s0(x, f0) or s1(x, f1) or
        s2(x, f2) or s3(x, f3) or s4(x, f4) or s5(x, f5) or s6(x, f6) or s7(x, f7) or s8(x, f8) or
        s9(x, f9) or s10(x, f10) or s11(x, f11),
    lambda x, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12: s0(x, f0) or s1(x, f1) or
        s2(x, f2) or s3(x, f3) or s4(x, f4) or s5(x, f5) or s6(x, f6) or s7(x, f7) or s8(x, f8) or
        s9(x, f9) or s10(x, f10) or s11(x, f11) or s12(x, f12),
    lambda x, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13: s0(x, f0) or s1(x, f1) or
        s2(x, f2) or s3(x, f3) or s4(x, f4) or s5(x, f5) or s6(x, f6) or s7(x, f7) or s8(x, f8) or
        s9(x, f9) or s10(x, f10) or s11(x, f11) or s12(x, f12) or s13(x, f13),
)
HASH = (
    lambda x: hash(()),
    lambda x: hash((x.f0,)),
    lambda x: hash((x.f0, x.f1)),
    lambda x: hash((x.f0, x.f1, x.f2)),
    lambda x: hash((x.f0, x.f1, x.f2, x.f3)),
    lambda x: hash((x.f0, x.f1, x.f2, x.f3, x.f4)),
    lambda x: hash((x.f0, x.f1, x.f2, x.f3, x.f4, x.f5)),
    lambda x: hash((x.f0, x.f1, x.f2, x.f3, x.f4, x.f5, x.f6)),
    lambda x: hash((x.f0, x.f1, x.f2, x.f3, x.f4, x.f5, x.f6, x.f7)),
    lambda x: hash((x.f0, x.f1, x.f2, x.f3, x.f4, x.f5, x.f6, x.f7, x.f8)),
    lambda x: hash((x.f0, x.f1, x.f2, x.f3, x.f4, x.f5, x.f6, x.f7, x.f8, x.f9)),
    lambda x: hash((x.f0, x.f1, x.f2, x.f3, x.f4, x.f5, x.f6, x.f7, x.f8, x.f9, x.f10)),
    lambda x: hash((x.f0, x.f1, x.f2, x.f3, x.f4, x.f5, x.f6, x.f7, x.f8, x.f9, x.f10, x.f11)),
    lambda x: hash((x.f0, x.f1, x.f2, x.f3, x.f4, x.f5, x.f6, x.f7, x.f8, x.f9, x.f10, x.f11,
        x.f12)),
    lambda x: hash((x.f0, x.f1, x.f2, x.f3, x.f4, x.f5, x.f6, x.f7, x.f8, x.f9, x.f10, x.f11, x.f12,
        x.f13)),
)
EQ = (
    lambda x, y: x.__class__ is y.__class__ or NotImplemented,
    lambda x, y: NotImplemented if x.__class__ is not y.__class__ else x is y or (x.f0,) == (y.f0,),
    lambda x, y: NotImplemented if x.__class__ is not y.__class__ else x is y or (x.f0, x.f1) == (
        y.f0, y.f1),
    lambda x, y: NotImplemented if x.__class__ is not y.__class__ else x is y or (x.f0, x.f1,
        x.f2) == (y.f0, y.f1, y.f2),
    lambda x, y: NotImplemented if x.__class__ is not y.__class__ else x is y or (x.f0, x.f1, x.f2,
        x.f3) == (y.f0, y.f1, y.f2, y.f3),
    lambda x, y: NotImplemented if x.__class__ is not y.__class__ else x is y or (x.f0, x.f1, x.f2,
        x.f3, x.f4) == (y.f0, y.f1, y.f2, y.f3, y.f4),
    lambda x, y: NotImplemented if x.__class__ is not y.__class__ else x is y or (x.f0, x.f1, x.f2,
        x.f3, x.f4, x.f5) == (y.f0, y.f1, y.f2, y.f3, y.f4, y.f5),
    lambda x, y: NotImplemented if x.__class__ is not y.__class__ else x is y or (x.f0, x.f1, x.f2,
        x.f3, x.f4, x.f5, x.f6) == (y.f0, y.f1, y.f2, y.f3, y.f4, y.f5, y.f6),
    lambda x, y: NotImplemented if x.__class__ is not y.__class__ else x is y or (x.f0, x.f1, x.f2,
        x.f3, x.f4, x.f5, x.f6, x.f7) == (y.f0, y.f1, y.f2, y.f3, y.f4, y.f5, y.f6, y.f7),
    lambda x, y: NotImplemented if x.__class__ is not y.__class__ else x is y or (x.f0, x.f1, x.f2,
        x.f3, x.f4, x.f5, x.f6, x.f7, x.f8) == (y.f0, y.f1, y.f2, y.f3, y.f4, y.f5, y.f6, y.f7,
        y.f8),
    lambda x, y: NotImplemented if x.__class__ is not y.__class__ else x is y or (x.f0, x.f1, x.f2,
        x.f3, x.f4, x.f5, x.f6, x.f7, x.f8, x.f9) == (y.f0, y.f1, y.f2, y.f3, y.f4, y.f5, y.f6,
        y.f7, y.f8, y.f9),
    lambda x, y: NotImplemented if x.__class__ is not y.__class__ else x is y or (x.f0, x.f1, x.f2,
        x.f3, x.f4, x.f5, x.f6, x.f7, x.f8, x.f9, x.f10) == (y.f0, y.f1, y.f2, y.f3, y.f4, y.f5,
        y.f6, y.f7, y.f8, y.f9, y.f10),
    lambda x, y: NotImplemented if x.__class__ is not y.__class__ else x is y or (x.f0, x.f1, x.f2,
        x.f3, x.f4, x.f5, x.f6, x.f7, x.f8, x.f9, x.f10, x.f11) == (y.f0, y.f1, y.f2, y.f3, y.f4,
        y.f5, y.f6, y.f7, y.f8, y.f9, y.f10, y.f11),
)
# fmt: on
