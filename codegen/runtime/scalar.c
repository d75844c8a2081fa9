/* Rank-0 parameters: Python numbers, NumPy scalars and 0-d arrays, converted to the type a kernel takes. */

enum {
  FROM_FLOAT = 1,
  FROM_INT,
  FROM_BOOL,
  FROM_NUMPY
}; /* sources, part of the launch key; NumPy's types count on from FROM_NUMPY */

static PyObject *scalar_types; /* tuple: the scalar types of NumPy and ml_dtypes that a kernel takes */

static int source_of(PyObject *o) {
  void *type = Py_TYPE(o);
  if (type == PyFloat_Type) return FROM_FLOAT;
  if (type == PyLong_Type) return FROM_INT;
  if (type == PyBool_Type) return FROM_BOOL;
  for (Py_ssize_t i = 0, n = PyTuple_Size(scalar_types); i < n; i++)
    if (type == PyTuple_GetItem(scalar_types, i)) return FROM_NUMPY + (int)i;
  return 0;
}

/* An integer that fits the bytes, else -1 with an error set. */
static int integer_of(PyObject *o, int bytes, int is_signed, tc_i64 *to) {
  PyObject *whole = PyNumber_Index(o);
  if (!whole) return -1;
  int bits = 8 * bytes, fits;
  if (is_signed) {
    long long v = PyLong_AsLongLong(whole);
    *to = v;
    fits = bits == 64 || (v >= -(1LL << (bits - 1)) && v < 1LL << (bits - 1));
  } else {
    unsigned long long v = PyLong_AsUnsignedLongLong(whole);
    *to = (tc_i64)v;
    fits = bits == 64 || v >> bits == 0;
  }
  Py_DecRef(whole);
  if (PyErr_Occurred()) return -1;
  if (!fits) PyErr_SetString(PyExc_OverflowError, "an integer does not fit the parameter's type");
  return fits ? 0 : -1;
}

/* Round to nearest even with so many bits behind the leading one: adding and taking away a number whose last
 * place is the one wanted. */
static double round_to(double v, int fraction_bits, int lowest_exponent) {
  union {
    double d;
    tc_u64 u;
  } x = {v}, shift;
  int exponent = (int)(x.u >> 52 & 2047) - 1023;
  if (exponent == 1024) return v; /* inf, NaN */
  if (exponent < lowest_exponent) exponent = lowest_exponent;
  shift.u = (tc_u64)(exponent + 52 - fraction_bits + 1023) << 52 | (tc_u64)1 << 51;
  volatile double sum = v + shift.d;
  return sum - shift.d;
}

static float as_half(double v) {
  double r = round_to(v, 10, -14);
  return r >= 65536 ? __builtin_inff() : r <= -65536 ? -__builtin_inff() : (float)r;
}

static float as_bfloat16(double v) {
  return (float)round_to((float)v, 7, -126); /* the cast overflows to inf by itself */
}

static int convert_scalar(int pass, int bytes, PyObject *o, tc_scalar *to) {
  if (pass == AS_BOOL) return (int)(to->i = PyObject_IsTrue(o)) < 0 ? -1 : 0;
  if (pass == AS_SIGNED || pass == AS_UNSIGNED) return integer_of(o, bytes, pass == AS_SIGNED, &to->i);
  double v = PyFloat_AsDouble(o);
  if (v == -1 && PyErr_Occurred()) return -1;
  switch (pass) {
    case AS_DOUBLE:
      to->d = v;
      break;
    case AS_FLOAT:
      to->f = (float)v;
      break;
    case AS_HALF:
      to->f = as_half(v);
      break;
    default:
      to->f = as_bfloat16(v);
  }
  return 0;
}
