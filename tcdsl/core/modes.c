/* What is on in this thread: recording, inference, hooks of what is kept, casts. */

/* Write what a value says of a mode; gives what was so before. */
static PyObject *switched(int *on, PyObject *value) {
  int yes = PyObject_IsTrue(value), old = *on;
  if (yes < 0) return NULL;
  *on = yes;
  return PyBool_FromLong(old);
}

static PyObject *m_is_grad_enabled(PyObject *m, PyObject *unused) {
  (void)m, (void)unused;
  return PyBool_FromLong(infers ? grad_said : grad_on);
}

static PyObject *m_set_grad_enabled(PyObject *m, PyObject *value) {
  (void)m;
  return switched(infers ? &grad_said : &grad_on, value);
}

static PyObject *m_is_inference_mode(PyObject *m, PyObject *unused) {
  (void)m, (void)unused;
  return PyBool_FromLong(infers);
}

/* In inference mode nothing is recorded, whatever set_grad_enabled says. */
static PyObject *m_set_inference_mode(PyObject *m, PyObject *value) {
  PyObject *old = switched(&infers, value);
  (void)m;
  if (!old) return NULL;
  grad_on = !infers;
  grad_said = 0;
  return old;
}

/* set_saving(hooks or None): of what this thread's calls keep from now on; gives those before. */
static PyObject *m_set_saving(PyObject *m, PyObject *hooks) {
  PyObject *old = saving;
  (void)m;
  saving = hooks == Py_None ? NULL : Py_NewRef(hooks);
  return old ? old : Py_NewRef(Py_None);
}

static PyObject *m_saving(PyObject *m, PyObject *unused) {
  (void)m, (void)unused;
  return newref_or_none(saving);
}

static PyObject *m_is_casting(PyObject *m, PyObject *unused) {
  (void)m, (void)unused;
  return PyBool_FromLong(casting);
}

static PyObject *m_set_casting(PyObject *m, PyObject *value) {
  (void)m;
  return switched(&casting, value);
}
