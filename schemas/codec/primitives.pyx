# What every generated codec is made of. Each read and each write checks its bounds; nothing here trusts a count or
# a length. Whole numbers and structure fail at once (Truncated, InvalidValue); a value beyond its limit is noted
# in `breach` and refused when the whole body has been read, so that Truncated and TrailingBytes come first.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.unicode cimport PyUnicode_Check, PyUnicode_DecodeUTF8
from libc.string cimport memchr, memcpy

from schemas.errors import InvalidValue, TrailingBytes, Truncated

cdef extern from *:
    """
    /* A slot is read and set through its member descriptor, which checks the type of `self`. Setting it so is what
       object.__setattr__ does in the __init__ of a frozen dataclass, without looking the name up. */
    static inline PyObject *slot_get(PyObject *member, PyObject *self) {
        return Py_TYPE(member)->tp_descr_get(member, self, (PyObject *)Py_TYPE(self));
    }
    static inline int slot_set(PyObject *member, PyObject *self, PyObject *value) {
        return Py_TYPE(member)->tp_descr_set(member, self, value);
    }
    static inline PyObject *fresh(PyObject *type) {
        return ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0);
    }
    static inline PyObject *fresh_tuple(PyObject *type, Py_ssize_t size) {
        PyObject *made = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, size);
    #if PY_VERSION_HEX >= 0x030E0000
        if (made != NULL)
            ((PyTupleObject *)made)->ob_hash = -1; /* not yet known, as tuple.__new__ leaves it */
    #endif
        return made;
    }
    /* Only for a tuple just made, and an index below its size. */
    static inline void tuple_fill(PyObject *made, Py_ssize_t index, PyObject *value) {
        Py_INCREF(value);
        PyTuple_SET_ITEM(made, index, value);
    }
    /* Only for an index that was held against the size. */
    static inline PyObject *tuple_at(PyObject *value, Py_ssize_t index) {
        PyObject *item = PyTuple_GET_ITEM(value, index);
        Py_INCREF(item);
        return item;
    }
    """
    object slot_get(object member, object self)
    int slot_set(object member, object self, object value) except -1
    object fresh(object kind)
    object fresh_tuple(object kind, Py_ssize_t size)
    void tuple_fill(object made, Py_ssize_t index, object value)
    object tuple_at(object value, Py_ssize_t index)

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    Py_ssize_t PY_SSIZE_T_MAX

cdef enum:
    ON_STACK = 2048
    VARINT_BYTES_MAX = 10


cdef struct Reader:
    const unsigned char *data
    Py_ssize_t at
    Py_ssize_t end
    int breach
    const char *name


cdef int truncated(Reader *r) except -1:
    raise Truncated(f"{(<bytes>r.name).decode()} ends inside a value")


cdef inline long long read_long(Reader *r) except? -1:
    """Zigzag varint. Longer ones than 64 bits are folded, as fastavro folds them."""
    cdef unsigned long long number
    cdef unsigned long long byte
    cdef int shift = 7
    if r.at >= r.end:
        truncated(r)
    byte = r.data[r.at]
    r.at += 1
    number = byte & 0x7F
    while byte & 0x80:
        if r.at >= r.end:
            truncated(r)
        byte = r.data[r.at]
        r.at += 1
        number |= (byte & 0x7F) << shift
        shift = (shift + 7) & 63
    return <long long>((number >> 1) ^ (0 - (number & 1)))


cdef inline long long read_int(Reader *r, int code) except? -1:
    cdef long long number = read_long(r)
    if number < -2147483648LL or number > 2147483647LL:
        note(r, code)
    return number


cdef inline void note(Reader *r, int code) noexcept:
    """Remember the first value that is beyond its limit. A breach below 0 is none."""
    if r.breach < 0:
        r.breach = code


cdef inline bint read_boolean(Reader *r) except? -1:
    cdef unsigned char byte
    if r.at >= r.end:
        truncated(r)
    byte = r.data[r.at]
    r.at += 1
    return byte != 0


cdef inline Py_ssize_t read_size(Reader *r) except -1:
    """The length of what follows; so many bytes are there."""
    cdef long long size = read_long(r)
    if size < 0 or size > r.end - r.at:
        truncated(r)
    return <Py_ssize_t>size


cdef object read_bytes(Reader *r):
    cdef Py_ssize_t size = read_size(r)
    cdef object value = PyBytes_FromStringAndSize(<const char *>r.data + r.at, size)
    r.at += size
    return value


cdef object read_string(Reader *r):
    cdef Py_ssize_t size = read_size(r)
    cdef object value = PyUnicode_DecodeUTF8(<const char *>r.data + r.at, size, NULL)
    r.at += size
    return value


cdef object read_text(Reader *r, Py_ssize_t limit, int code):
    """``code`` says that it is over its limit, the next one that it holds a NUL."""
    cdef Py_ssize_t size = read_size(r)
    cdef const char *begin = <const char *>r.data + r.at
    if size > limit:
        note(r, code)
    elif memchr(begin, 0, size) != NULL:
        note(r, code + 1)
    cdef object value = PyUnicode_DecodeUTF8(begin, size, NULL)
    r.at += size
    return value


cdef inline bint read_branch(Reader *r) except? -1:
    """Which branch of ``["null", X]``. From the end is tolerated."""
    cdef long long branch = read_long(r)
    if branch == 0 or branch == -2:
        return False
    if branch == 1 or branch == -1:
        return True
    if r.at >= r.end:
        truncated(r)
    raise InvalidValue(f"{(<bytes>r.name).decode()} holds a union branch that does not exist")


cdef inline long long read_count(Reader *r) except? -1:
    """How many items the next block of an array claims. A negative count has the block's size behind it; the most
    negative one counts nothing."""
    cdef long long count
    while True:
        count = read_long(r)
        if count >= 0:
            return count
        count = <long long>(0 - <unsigned long long>count)
        read_long(r)
        if count > 0:
            return count


cdef struct Writer:
    unsigned char *data
    unsigned char *heap
    Py_ssize_t used
    Py_ssize_t room


cdef int grow(Writer *w, Py_ssize_t more) except -1:
    cdef Py_ssize_t room
    cdef unsigned char *heap
    if more > PY_SSIZE_T_MAX // 2 - w.used:
        raise MemoryError
    room = 2 * (w.used + more)
    if w.heap == NULL:
        heap = <unsigned char *>PyMem_Malloc(room)
        if heap == NULL:
            raise MemoryError
        memcpy(heap, w.data, w.used)
    else:
        heap = <unsigned char *>PyMem_Realloc(w.heap, room)
        if heap == NULL:
            raise MemoryError
    w.heap = heap
    w.data = heap
    w.room = room
    return 0


cdef inline int reserve(Writer *w, Py_ssize_t more) except -1:
    """Afterwards ``more`` bytes can be written. ``more`` is not negative."""
    if more > w.room - w.used:
        grow(w, more)
    return 0


cdef inline int write_byte(Writer *w, unsigned char byte) except -1:
    reserve(w, 1)
    w.data[w.used] = byte
    w.used += 1
    return 0


cdef inline int write_number(Writer *w, long long value) except -1:
    cdef unsigned long long number = (<unsigned long long>value << 1) ^ (0 - (<unsigned long long>value >> 63))
    reserve(w, VARINT_BYTES_MAX)
    while number >= 0x80:
        w.data[w.used] = <unsigned char>(number & 0x7F) | 0x80
        w.used += 1
        number >>= 7
    w.data[w.used] = <unsigned char>number
    w.used += 1
    return 0


cdef inline int write_raw(Writer *w, const char *begin, Py_ssize_t size) except -1:
    reserve(w, size)
    memcpy(w.data + w.used, begin, size)
    w.used += size
    return 0


cdef int write_long(Writer *w, object value, object name) except -1:
    cdef int overflow = 0
    cdef long long number
    if not PyLong_CheckExact(value):
        raise InvalidValue(f"{name} is not a whole number of 64 bits")
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow:
        raise InvalidValue(f"{name} is not a whole number of 64 bits")
    return write_number(w, number)


cdef int write_int(Writer *w, object value, object name) except -1:
    cdef int overflow = 0
    cdef long long number
    if not PyLong_CheckExact(value):
        raise InvalidValue(f"{name} is not a whole number of 32 bits")
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or number < -2147483648LL or number > 2147483647LL:
        raise InvalidValue(f"{name} is not a whole number of 32 bits")
    return write_number(w, number)


cdef int write_boolean(Writer *w, object value, object name) except -1:
    if value is True:
        return write_byte(w, 1)
    if value is False:
        return write_byte(w, 0)
    raise InvalidValue(f"{name} is not bool")


cdef int write_bytes(Writer *w, object value, object name) except -1:
    if not PyBytes_CheckExact(value):
        raise InvalidValue(f"{name} is not bytes")
    write_number(w, PyBytes_GET_SIZE(value))
    return write_raw(w, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))


cdef int write_string(Writer *w, object value, object name) except -1:
    return write_text(w, value, name, PY_SSIZE_T_MAX, False)


cdef int write_text(Writer *w, object value, object name, Py_ssize_t limit, bint without_nul=True) except -1:
    cdef Py_ssize_t size = 0
    cdef const char *begin
    if not PyUnicode_Check(value):
        raise InvalidValue(f"{name} is not a text")
    try:
        begin = PyUnicode_AsUTF8AndSize(value, &size)
    except UnicodeEncodeError:
        raise InvalidValue(f"{name} holds a lone surrogate") from None
    if size > limit:
        raise InvalidValue(f"{name} is over {limit} bytes")
    if without_nul and memchr(begin, 0, size) != NULL:
        raise InvalidValue(f"{name} holds a NUL character")
    write_number(w, size)
    return write_raw(w, begin, size)


cdef tuple items_of(object value, object name, Py_ssize_t limit):
    """The items of an array, as a tuple that nobody can change meanwhile. A limit below 0 is none."""
    if type(value) is not tuple and type(value) is not list:
        raise InvalidValue(f"{name} is not a list" + ("" if limit < 0 else f" of at most {limit}"))
    cdef tuple items = value if type(value) is tuple else tuple(value)
    if 0 <= limit < len(items):
        raise InvalidValue(f"{name} is not a list of at most {limit}")
    return items


def class_of(path):
    """The class at ``module:name``, as the plan had it."""
    from importlib import import_module

    module, _, name = path.partition(":")
    kind = import_module(module)
    for part in name.split("."):
        kind = getattr(kind, part)
    return kind


def hold(kind, shape, fields):
    """Refuse a class that is no longer as it was when this was built: that is a stale build."""
    from schemas.codec.plan import fields_of, kind_of

    if kind_of(kind) != shape or fields_of(kind) != fields:
        raise ImportError(f"{kind.__qualname__} has changed since this codec was built")


cdef object finished(Reader *r, object name, object value, tuple breaches):
    """What was read, when that was all there is and within the limits."""
    if r.at < r.end:
        raise TrailingBytes(f"{r.end - r.at} bytes after {name}")
    if r.breach >= 0:
        raise InvalidValue(breaches[r.breach])
    return value
