"""The forms that groups may take on the CPU: the one place that lists them.

The first whose `matches` is true is a group's default form; `nest` takes any one statement, so no
program is refused for want of a form.
"""

from __future__ import annotations

from typing import Any

from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.chain import form as chain
from tcdsl.codegen.forms.contraction import form as contraction
from tcdsl.codegen.forms.contraction.weights import form as weights
from tcdsl.codegen.forms.contraction.window import form as window
from tcdsl.codegen.forms.contraction.window import sliding_form as sliding
from tcdsl.codegen.forms.points import arg_columns, arg_lanes, gather, nest, scan, scatter
from tcdsl.codegen.forms.rows.cpu import pointwise, reduction, rows
from tcdsl.codegen.forms.stencil import form as stencil
from tcdsl.codegen.forms.stencil import weights as stencil_weights
from tcdsl.codegen.machine.cpu import Machine

CPU: tuple[Form[Machine, Any], ...] = (
    chain.FORM,
    weights.FORM,
    window.FORM,
    sliding.FORM,
    stencil.FORM,
    stencil_weights.FORM,
    contraction.FORM,
    pointwise.FORM,
    reduction.FORM,
    rows.FORM,
    arg_lanes.FORM,
    arg_columns.FORM,
    gather.FORM,
    scatter.FORM,
    scan.FORM,
    nest.FORM,
)
