"""Names of variables in emitted texts."""

from __future__ import annotations

# Names that a C or CUDA text cannot give to a variable, and those our own texts use: the keywords
# of C23 and C++23, what compilers define as macros, and what CUDA declares by itself.
_RESERVED = frozenset(
    """args workspace begin end plan task asm auto break case char const continue default do double
    else enum extern float for goto if inline int long register restrict return short signed sizeof
    static struct switch typedef typeof typeof_unqual union unsigned void volatile while linux unix
    i386 NULL bool class delete new private protected public this template throw try catch operator
    namespace true false using virtual friend mutable explicit export and and_eq bitand bitor compl
    or or_eq not not_eq xor xor_eq nullptr alignas alignof char8_t char16_t char32_t wchar_t concept
    consteval constexpr constinit const_cast co_await co_return co_yield decltype dynamic_cast
    noexcept reinterpret_cast requires static_assert static_cast thread_local typeid typename
    blockIdx blockDim gridDim threadIdx warpSize""".split()  # noqa: SIM905  (it reads better)
)


def safe_name(name: str) -> str:
    """Return a name of the language as a variable of the emitted text."""
    taken = name in _RESERVED or name.startswith(("tc_", "TC_", "_", "v_"))
    return f"v_{name}" if taken else name


def numbered(stem: str, taken: set[str]) -> str:
    """Return stem with the first number behind it that is not taken, which it is from now on."""
    n = 0
    while f"{stem}{n}" in taken:
        n += 1
    taken.add(f"{stem}{n}")
    return f"{stem}{n}"
