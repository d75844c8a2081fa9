/* Operators of the language on tensors: each slot calls what Python has set for it. */

enum { SLOTS = 80 };
static PyObject *operators[SLOTS];

static int is_foreign(PyObject *o) {
  void *type = Py_TYPE(o);
  return !is_tensor(o) && type != PyFloat_Type && type != PyLong_Type && type != PyBool_Type;
}

static PyObject *call_operator(PyObject *operator, PyObject *const *args, size_t n) {
  if (Py_TYPE(operator) == op_type) return ((Op *)operator)->call(operator, args, n, NULL);
  return PyObject_Vectorcall(operator, args, n, NULL);
}

/* Of an operand that tensors know nothing of, the other side is asked. */
static PyObject *binary(int slot, PyObject *a, PyObject *b) {
  PyObject *two[] = {a, b};
  PyObject *result = operators[slot] ? call_operator(operators[slot], two, 2) : Py_NewRef(Py_NotImplemented);
  if (result || (!is_foreign(a) && !is_foreign(b)) || !PyErr_ExceptionMatches(PyExc_TypeError)) return result;
  PyErr_Clear();
  return Py_NewRef(Py_NotImplemented);
}

static PyObject *unary(int slot, PyObject *a) {
  if (operators[slot]) return call_operator(operators[slot], &a, 1);
  PyErr_SetString(PyExc_TypeError, "bad operand type for an operator: 'Tensor'");
  return NULL;
}

static PyObject *power(int slot, PyObject *a, PyObject *b, PyObject *modulo) {
  return modulo == Py_None ? binary(slot, a, b) : Py_NewRef(Py_NotImplemented);
}

#define BINARY(k) static PyObject *binary_##k(PyObject *a, PyObject *b) { return binary(k, a, b); }
#define UNARY(k) static PyObject *unary_##k(PyObject *a) { return unary(k, a); }
#define POWER(k) static PyObject *power_##k(PyObject *a, PyObject *b, PyObject *m) { return power(k, a, b, m); }
#define EACH_BINARY(X) /* numbers of Py_nb_* */ \
  X(7) X(8) X(10) X(12) X(14) X(15) X(16) X(17) X(18) X(19) X(21) X(22) X(23) X(24) X(25) X(28) X(29) X(31) X(34) \
  X(35) X(36) X(37) X(38) X(75) X(76)
#define EACH_UNARY(X) X(6) X(11) X(13) X(26) X(27) X(30) X(32)
EACH_BINARY(BINARY)
EACH_UNARY(UNARY)
POWER(33)
POWER(20)

/* operator(number of a slot, callable): what a language operator on tensors calls. */
static PyObject *m_operator(PyObject *m, PyObject *args) {
  int slot;
  PyObject *op;
  (void)m;
  if (!PyArg_ParseTuple(args, "iO", &slot, &op)) return NULL;
  if (slot < 0 || slot >= SLOTS) {
    PyErr_SetString(PyExc_ValueError, "no slot of a number");
    return NULL;
  }
  PyObject *old = operators[slot];
  operators[slot] = Py_NewRef(op);
  Py_DecRef(old);
  return Py_NewRef(Py_None);
}
