/* Rank-0 parameters: Python numbers, NumPy scalars and 0-d arrays, converted to the type a kernel takes. */

enum {
  FROM_FLOAT = 1,
  FROM_INT,
  FROM_BOOL,
  FROM_NUMPY
}; /* sources, part of the launch key; NumPy's types count on from FROM_NUMPY */

static PyObject *scalar_types; /* tuple: the scalar types of NumPy and ml_dtypes that a kernel takes, bool first */

static int source_of(PyObject *o) {
  void *type = Py_TYPE(o);
  if (type == PyFloat_Type) return FROM_FLOAT;
  if (type == PyLong_Type) return FROM_INT;
  if (type == PyBool_Type) return FROM_BOOL;
  for (Py_ssize_t i = 0, n = PyTuple_Size(scalar_types); i < n; i++)
    if (type == PyTuple_GetItem(scalar_types, i)) return FROM_NUMPY + (int)i;
  return 0;
}

static int is_numpys_bool(PyObject *o) {
  if (is_array(o)) return ((Array *)o)->nd == 0 && ((Array *)o)->descr->type_num == NUM_BOOL;
  return (PyObject *)Py_TYPE(o) == PyTuple_GetItem(scalar_types, 0);
}

/* An integer that fits the bytes, else -1 with an error set. */
static int integer_of(PyObject *o, int bytes, int is_signed, tc_i64 *to) {
  if (is_numpys_bool(o)) { /* which has no __index__ */
    *to = PyObject_IsTrue(o);
    return 0;
  }
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
  if (v >= 65536 || v <= -65536) return v > 0 ? __builtin_inff() : -__builtin_inff(); /* 2^981 has no shift */
  double r = round_to(v, 10, -14);
  return r >= 65536 ? __builtin_inff() : r <= -65536 ? -__builtin_inff() : (float)r;
}

static float as_bfloat16(double v) {
  return (float)round_to((float)v, 7, -126); /* the cast overflows to inf by itself */
}

static void convert_float(int pass, double v, tc_scalar *to) {
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
}

static int convert_scalar(int pass, int bytes, PyObject *o, tc_scalar *to) {
  if (pass == AS_BOOL) return (int)(to->i = PyObject_IsTrue(o)) < 0 ? -1 : 0;
  if (pass == AS_SIGNED || pass == AS_UNSIGNED) return integer_of(o, bytes, pass == AS_SIGNED, &to->i);
  double v = PyFloat_AsDouble(o);
  if (v == -1 && PyErr_Occurred()) return -1;
  convert_float(pass, v, to);
  return 0;
}

/* ---- numbers that lie in the memory of an array of rank 0 */

static double half_value(unsigned h) {
  int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
  double v = exponent == 31 ? fraction ? __builtin_nan("") : __builtin_inf()
             : exponent     ? __builtin_ldexp(1024 + fraction, exponent - 25)
                            : __builtin_ldexp(fraction, -24);
  return h >> 15 ? -v : v;
}

static double float_at(int type_num, const char *at) {
  unsigned short bits;
  float f;
  double d;
  switch (item_bytes_of(type_num)) {
    case 8:
      memcpy(&d, at, 8);
      return d;
    case 4:
      memcpy(&f, at, 4);
      return f;
  }
  memcpy(&bits, at, 2);
  if (type_num != numpy.bfloat16) return half_value(bits);
  tc_u32 wide = (tc_u32)bits << 16;
  memcpy(&f, &wide, 4);
  return f;
}

/* The integer at an address as 64 bits; *is_large: it is above those of int64. */
static tc_i64 whole_at(int type_num, const char *at, int *is_large) {
  int bytes = item_bytes_of(type_num), bits = 8 * bytes;
  tc_u64 u = 0;
  memcpy(&u, at, (size_t)bytes); /* the processors served store the low byte first */
  *is_large = kind_of(type_num) == 'u' && u >> 63;
  return kind_of(type_num) == 'i' && bits < 64 && u >> (bits - 1) ? (tc_i64)(u | ~(tc_u64)0 << bits) : (tc_i64)u;
}

/* An integer of a bool or an integer that fits the bytes, else -1; no error is set. */
static int integer_at(int type_num, const char *at, int bytes, int is_signed, tc_i64 *to) {
  char kind = kind_of(type_num);
  int is_large, bits = 8 * bytes;
  if (kind != 'i' && kind != 'u' && kind != 'b') return -1;
  *to = whole_at(type_num, at, &is_large);
  if (is_large) return is_signed || bits < 64 ? -1 : 0;
  if (!is_signed) return *to < 0 || (bits < 64 && *to >> bits) ? -1 : 0;
  return bits < 64 && (*to < -(1LL << (bits - 1)) || *to >= 1LL << (bits - 1)) ? -1 : 0;
}

static int convert_lent(int pass, int bytes, int lender, PyObject *o, tc_scalar *to) {
  View v;
  if (!memory_of(lender, o, &v) || v.nd) return -1;
  char kind = kind_of(v.type_num);
  int is_float = kind == 'f' || kind == 'V', is_large = 0;
  if (pass == AS_SIGNED || pass == AS_UNSIGNED)
    return integer_at(v.type_num, v.data, bytes, pass == AS_SIGNED, &to->i);
  tc_i64 whole = is_float ? 0 : whole_at(v.type_num, v.data, &is_large);
  double number = is_float ? float_at(v.type_num, v.data) : is_large ? (double)(tc_u64)whole : (double)whole;
  if (pass == AS_BOOL)
    to->i = number != 0;
  else
    convert_float(pass, number, to);
  return 0;
}
