"""The forms that groups may take on a GPU, as `forms.py` has those of the CPU."""

from __future__ import annotations

from typing import Any

from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.forms.contraction.cuda import form as contraction
from tcdsl.codegen.forms.contraction.cuda import mma
from tcdsl.codegen.forms.points.cuda import nest
from tcdsl.codegen.forms.rows.cuda import permute, pointwise, reduction, rows
from tcdsl.codegen.machine.gpu import Gpu

GPU: tuple[Form[Gpu, Any], ...] = (
    mma.FORM,
    contraction.FORM,
    permute.FORM,
    pointwise.FORM,
    reduction.FORM,
    rows.FORM,
    nest.FORM,
)
