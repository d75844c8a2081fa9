"""The forms that groups may take, by target: the one place that lists them.

The first whose `matches` is true is a group's default form; `nest` takes any one statement, so no
program is refused for want of a form.
"""

from __future__ import annotations

from typing import Any

from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.contraction import form as contraction
from tcdsl.codegen.forms.contraction.cuda import form as cuda_contraction
from tcdsl.codegen.forms.contraction.cuda import mma
from tcdsl.codegen.forms.contraction.weights import form as weights
from tcdsl.codegen.forms.contraction.window import form as window
from tcdsl.codegen.forms.points import arg_lanes, gather, nest, scatter
from tcdsl.codegen.forms.points.cuda import nest as cuda_nest
from tcdsl.codegen.forms.rows.cpu import pointwise, reduction, rows
from tcdsl.codegen.forms.rows.cuda import permute
from tcdsl.codegen.forms.rows.cuda import pointwise as cuda_pointwise
from tcdsl.codegen.forms.rows.cuda import reduction as cuda_reduction
from tcdsl.codegen.forms.rows.cuda import rows as cuda_rows
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.gpu import Gpu

CPU: tuple[Form[Machine, Any], ...] = (
    weights.FORM,
    window.FORM,
    contraction.FORM,
    pointwise.FORM,
    reduction.FORM,
    rows.FORM,
    arg_lanes.FORM,
    gather.FORM,
    scatter.FORM,
    nest.FORM,
)
GPU: tuple[Form[Gpu, Any], ...] = (
    mma.FORM,
    cuda_contraction.FORM,
    permute.FORM,
    cuda_pointwise.FORM,
    cuda_reduction.FORM,
    cuda_rows.FORM,
    cuda_nest.FORM,
)
