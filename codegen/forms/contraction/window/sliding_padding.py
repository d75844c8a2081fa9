"""The phase that pads images for a convolution of unknown sizes, once for all blocks of columns.

task: a channel of an image        images[image][row][channel][column] = its lines, zeros around
"""

from __future__ import annotations

from tcdsl.codegen.forms.contraction.lets import Lets
from tcdsl.codegen.forms.contraction.problem import extent_of
from tcdsl.codegen.forms.contraction.window.padded import make_part
from tcdsl.codegen.forms.contraction.window.reach import digits
from tcdsl.codegen.forms.contraction.window.sliding_nest import SlidingNest
from tcdsl.codegen.loops import build as b
from tcdsl.codegen.loops.loopir import Expr, Function, Let, Return
from tcdsl.grammar.types.dtypes import INT32


def padding_phase(nest: SlidingNest) -> tuple[Function, Expr, Expr]:
    """Return the phase that pads images, its tasks, and the elements of all of them.

    A task is a channel of an image: its lines are read one behind the other.
    """
    c, part = nest.conv, nest.conv.part
    assert part is not None
    where, task, image = Lets(nest.var), nest.var("task"), nest.var("image")
    plane, channels = part.planes(lambda n: nest.local(f"channel{n}"))
    images = tuple(i for i in c.lines if i != part.row)
    inner = [*images, *(i for i, _ in channels)][::-1]
    found = digits(where, task, [(f"at_{i.name}", nest.size(i.extent)) for i in inner])
    at = dict(zip((i.name for i in inner), found, strict=True))
    steps = [b.mul(at[i.name], nest.size(step)) for i, step in channels]
    if part.row is not None:
        at[part.row.name] = b.c64(0)
    place = b.add(b.mul(image, nest.image_elements), *steps)
    names = nest.name("pad"), b.offset(nest.pointer("images"), place)
    source = nest.operands.pointer(part.image.buffer)
    make = make_part(plane, *names, source, nest.size, nest.var, at, nest.image_lines)
    count = nest.size(extent_of(tuple(i for i, _ in channels)))
    body = b.block(where.stmts, Let(image, b.div(task, count)), make)
    loop = b.loop(task, b.BEGIN, b.END, body)
    whole = nest.operands.declare(b.block(nest.images, loop, Return(b.const(0, INT32))))
    total = nest.size(extent_of(images))
    elements = b.mul(total, nest.image_elements)
    return b.phase_function(nest.name("padding"), whole), b.mul(total, count), elements
