/* The structs of the core: a Tensor, an Op that computes tensors, and what is recorded of its calls.
 *
 * The core knows no operation, no rule of types and no derivative. Those come from Python, once: as entries of
 * launchers (what a call runs) and as recipes (what a recorded call keeps, and who gets gradients of it).
 */
#ifndef TC_CORE_H
#define TC_CORE_H
#include "pyabi_core.h"
#include "codegen/runtime/tensor.h"

enum { INLINE_DIMS = 4, MOST_DIMS = 64, MOST_INPUTS = 64, MOST_TAKEN = 192 };
/* Flags of a tensor, beside those that the launcher reads. Of a view: what it or one that it was made of came from. */
/* INFERENCE: made in inference mode, or a view of such. */
enum { LEAF_REQUIRES = 256, VIEW_UNRECORDED = 512, VIEW_OF_SEVERAL = 1024, INFERENCE = 2048 };

typedef struct Node Node;

typedef struct {
  TensorHead head;
  Node *fn;         /* what made it, or NULL */
  PyObject *grad, *base, *hooks, *dict, *weak; /* each NULL while there is none; base: the tensor it is a view of */
  tc_i64 seen;      /* of a view: the version of the memory for which fn is right */
  int out_nr;       /* which output of fn */
  tc_i64 room[2 * INLINE_DIMS];
} Tensor;

/* What a recorded call keeps, what its vjp takes, and where the results go: made by Python, shared by calls.
 * A value is an input, the form of an input, an output, the gradient of an output, or which gradients are needed. */
enum { LARGE = 1 << 16 }; /* a view of an adjoint, made by Python, costs less than to write as many elements */
enum { TAKE_INPUT, TAKE_FORM = 64, TAKE_OUTPUT = 128, TAKE_GRAD = 192, TAKE_NEEDS = 255 };

typedef struct Recipe {
  PyObject ob_base;
  PyObject *vjp;    /* a callable, or NULL where every gradient is handed on as it is */
  PyObject *narrow; /* NULL, or (needs) -> the recipe of fewer gradients, whose values are among those kept */
  PyObject *name;   /* of the nodes, in place of the op's, or NULL */
  PyObject *large;  /* NULL, or what stands for vjp where the first input of `to` has LARGE elements or more */
  int n_taken, n_kept, n_to, n_passed;
  int takes_none; /* where a gradient is not there: None, not zeros */
  tc_u64 standing; /* inputs where numbers stand for tensors: kept, they are let go of like those */
  unsigned char taken[MOST_TAKEN]; /* per argument of vjp */
  unsigned char kept[MOST_TAKEN];  /* what nodes keep: the inputs, forms and outputs among those, each once */
  signed char to[MOST_INPUTS];     /* per result of vjp, the input whose gradient it is, or -1 */
  signed char passed[MOST_INPUTS]; /* inputs to which the gradient of output 0 is handed as it is */
} Recipe;

/* What lies with an entry: the recipe of its recorded calls for each set of gradients that was needed. */
typedef struct Plan {
  PyObject ob_base;
  tc_u64 needs;
  Recipe *recipe;
  struct Plan *next;
} Plan;

typedef struct { PyObject *o; tc_i64 v; } Slot;

/* A recorded call. Slots: an edge for each input (Node or leaf, number of its output), what is kept (object,
 * version), the gradients that have arrived, of several outputs their forms, and, if traced, where the call was. */
struct Node {
  PyVarObject ob_base;
  PyObject *name, *hooks;
  Recipe *recipe;
  PyObject *vjp; /* in place of the recipe's, or NULL */
  Node *link;    /* while it dies */
  tc_u64 needs, mark; /* mark: the backward that holds it, 0: none */
  int waits;
  short n_in, n_kept, n_out;
  unsigned char is_wanted, is_released, is_open, is_traced;
  Slot slot[];
};
enum { IS_OPEN = 1, ALL_OPEN = 2 }; /* is_open: seen by the collector; so are all that it leads to */

static inline Slot *kept_of(Node *n) { return n->slot + n->n_in; }
static inline Slot *arrived_at(Node *n) { return kept_of(n) + n->n_kept; }
static inline Slot *forms_of(Node *n) { return arrived_at(n) + n->n_out; }
static inline Slot *trace_of(Node *n) { return n->slot + n->ob_base.ob_size - 1; } /* if traced */

typedef struct {
  PyObject ob_base;
  vectorcallfunc call;
  PyObject *name, *launcher, *slow;
  PyObject *named;    /* NULL, None, or a callable: takes calls by name, or of another number of operands */
  PyObject *recorded; /* NULL, None, or a callable: takes calls that are recorded */
  PyObject *cast;     /* NULL, None, or a callable: takes calls where operations choose their types */
  PyObject *plan; /* (entry, needs, inputs) -> a Recipe, asked once for each form; or NULL: not differentiable */
  PyObject *dict;
  int n_in, n_out, writes;   /* writes: its first input is its output */
  tc_u64 judged, reads_over; /* a bit for each set of needed gradients: is the next one known; do these gradients read
                                what is written over */
} Op;

static PyTypeObject *tensor_type, *node_type, *op_type, *recipe_type, *plan_type;
static const tc_runtime *rt;

/* What Python sets up once; each a callable or a type. */
static struct {
  PyObject *size_type;   /* of shapes: a subclass of tuple */
  PyObject *dtypes;      /* a list: the object at NumPy's number of the type */
  PyObject *bind;        /* types.MethodType */
  PyObject *host, *gpu;  /* the device that shows the host's memory; (number) -> a GPU's */
  PyObject *add, *add_into; /* the sum of two gradients; into the first */
  PyObject *copy;        /* a dense copy */
  PyObject *laid_as;     /* (leaf, gradient) -> a copy of the gradient in the layout of its leaf */
  PyObject *zeros, *one; /* of the form of a tensor */
  PyObject *fit;         /* (leaf, gradient) -> the gradient in the leaf's shape and type, or an error */
  PyObject *hooked;      /* (hooks, gradient, number of the output) -> gradient */
  PyObject *leaf_node;   /* (leaf): what graphs show in its place */
  PyObject *refusal;     /* (function, its first argument) -> a text that refuses it, or None */
  PyObject *node_type;   /* (name): the type that Python sees a node of that name as, one below Node */
  PyObject *around;      /* (hooks, gradients, gradients of the inputs or None): what hooks make of the latter, or of
                            the former before the node runs; each a tuple, with None for none */
  PyObject *pack, *unpack, *packed; /* (hooks, tensor) -> of the type packed; (that, leaf or None) -> tensor */
  PyObject *trace;       /* None, or () -> a text that tells where the call is that is being recorded */
  PyObject *written;     /* (kept tensor, name of the node it is of or None, number of the output, version): the words
                            of the error that it was written since */
  PyObject *judge;       /* None, or (node, its gradients or None for an error): raises where one is wrong */
  PyObject *construct;   /* of the arguments of Tensor(...) that are no tensor */
  PyObject *backward;    /* Tensor.backward with arguments */
  PyObject *renew;       /* (view): give a view of a base that was written its fn */
  PyObject *remade;      /* (tensor, the node that had made it): after a write */
  PyObject *is_laid;     /* (tensor, memory_format) -> whether its elements lie in that order */
  PyObject *on_host;     /* (tensor on a device) -> a copy in the host's memory */
  PyObject *place;       /* (tensor on a device) -> what stands for its memory */
} py;

enum { MOST_TYPES = 1024 };
static unsigned char is_float[MOST_TYPES]; /* at NumPy's numbers of types */

static __thread int grad_on __attribute__((tls_model("initial-exec"))) = 1;
static __thread int infers __attribute__((tls_model("initial-exec"))) = 0;  /* inference mode: grad_on is 0, and */
static __thread int grad_said __attribute__((tls_model("initial-exec"))) = 0; /* what is_grad_enabled tells there */
static __thread PyObject *saving __attribute__((tls_model("initial-exec"))) = NULL; /* hooks of what is kept, or NULL */
static __thread int casting __attribute__((tls_model("initial-exec"))) = 0; /* whether operations choose their types */

#define FAST(f) ((PyCFunction)(void *)(f)) /* of methods that take more than two arguments */

static inline int is_tensor(PyObject *o) {
  return Py_TYPE(o) == tensor_type || PyType_IsSubtype(Py_TYPE(o), tensor_type);
}
static inline int is_node(PyObject *o) { /* its type may be one that Python saw it as */
  return Py_TYPE(o) == node_type || (Py_TYPE(o) != tensor_type && PyType_IsSubtype(Py_TYPE(o), node_type));
}
static inline int is_set(PyObject *o) { return o && o != Py_None; }
static inline PyObject *newref_or_none(void *o) { return Py_NewRef(o ? o : Py_None); }
#endif
