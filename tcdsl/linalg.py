"""Linear algebra, as PyTorch's `torch.linalg` has it."""

from tcdsl.calls.process.places import found_in
from tcdsl.ops.between import powers as vander
from tcdsl.ops.factors import orgqr as householder_product
from tcdsl.ops.into import taking_out
from tcdsl.ops.linalg import (
    LinAlgError,
    cholesky,
    cond,
    cross,
    det,
    diagonal,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    lstsq,
    matmul,
    matrix_norm,
    matrix_power,
    matrix_rank,
    multi_dot,
    norm,
    pinv,
    qr,
    slogdet,
    solve,
    solve_triangular,
    svd,
    svdvals,
    tensorinv,
    tensorsolve,
    vecdot,
    vector_norm,
)
from tcdsl.ops.lu import (
    cholesky_ex,
    inv_ex,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    matrix_exp,
)
from tcdsl.ops.symmetric import ldl_factor, ldl_factor_ex, ldl_solve
from tcdsl.ops.table import found_at

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

_TAKING = """
    cholesky cholesky_ex cond cross det eig eigh eigvals eigvalsh householder_product inv inv_ex
    ldl_factor ldl_factor_ex ldl_solve lu lu_factor lu_factor_ex lu_solve matmul matrix_norm
    matrix_power matrix_rank multi_dot norm pinv qr slogdet solve solve_triangular svd svdvals
    tensorinv tensorsolve vecdot vector_norm
"""
for _name in _TAKING.split():
    _made = globals()[_name] = taking_out(_name, globals()[_name])
    found_at(_made, "tcdsl.linalg", _name)
found_in(__name__)
