cimport cython

from dragoman.grammar.lazy_automaton cimport Automaton

cdef int _DEAD, _NEVER, _WIDE, _TARGETS, _SPANS
cdef unsigned long long _KNOWN, _EVERY
cdef unsigned int _ONE, _ALL

@cython.locals(i=int)
cpdef scatter(unsigned int[::1] row, const int[::1] tokens, bint clear)


@cython.final
cdef class Record:
    cdef public unsigned char[::1] home
    cdef public int[::1] tokens
    cdef public int[::1] before
    cdef public int[::1] exits
    cdef public object row

    @cython.locals(low=int, high=int, middle=int)
    cdef int first_exit(self, int node) noexcept


@cython.final
cdef class Walk:
    cdef public unsigned char[::1] byte
    cdef public int[::1] end
    cdef public int[::1] token_start
    cdef public int[::1] token_ids
    cdef public int[::1] tokens
    cdef public int[::1] needs
    cdef public int[::1] nodes
    cdef public int[::1] states
    cdef public int[::1] child_start
    cdef public int[::1] child
    cdef public unsigned char[::1] child_byte
    cdef public int[::1] at_stack
    cdef public int[::1] end_stack
    cdef public int[::1] state_stack
    cdef public int[::1] like_stack
    cdef public unsigned char[::1] kind
    cdef public unsigned long long[::1] inside
    cdef public int[::1] weight
    cdef public int[::1] target
    cdef public int[::1] weighs
    cdef public int[::1] spans
    cdef public int span_count
    cdef public signed char[::1] narrow_stack
    cdef public list arrays
    cdef public list records
    cdef public list later_nodes
    cdef public list later_states
    cdef public unsigned char[::1] home
    cdef public int seek
    cdef public int asked
    cdef public int top
    cdef public int node
    cdef public int token_count
    cdef public int node_count
    cdef public int steps
    cdef public bint full
    cdef public int low
    cdef public int high

    cpdef clear(self)
    @cython.locals(at=int, count=int, node=int, end=int)
    cpdef int under(self, Automaton automaton, int[::1] nodes, int first, int state, int budget) except -1
    @cython.locals(need=int, i=int)
    cdef mark(self, Automaton automaton, int node, int state)
    @cython.locals(record=int, kept=Record)
    cdef bint below(self, Automaton automaton, int node, int state, int budget) except -1
    @cython.locals(i=int, row="Py_ssize_t", found="unsigned long long")
    cdef unsigned long long loops(self, Automaton automaton, int state) except? 0
    @cython.locals(end=int, need=int, first=int, past=int, count=int, i=int)
    cdef whole(self, Automaton automaton, int node, int state)
    @cython.locals(row="Py_ssize_t", count=int, total=int, i=int, after=int, at=int, best=int)
    cpdef int like(self, Automaton automaton, int state) except -2
    @cython.locals(top=int, at=int, node=int)
    cpdef bint beside(self, Automaton automaton, int state, int like, int budget) except -1
    cdef bint pair(self, Automaton automaton, int node, int state, int like) except -1
    @cython.locals(node=int)
    cpdef bint left(self, Automaton automaton, Record record, int state, int budget) except -1
    @cython.locals(i=int, at=int, first=int, past=int)
    cpdef turn(self, unsigned int[::1] row)
    @cython.locals(i=int, count=int, row="Py_ssize_t")
    cpdef bint repeats(self, Automaton automaton, int state) except -1
    @cython.locals(end=int, need=int, first=int, past=int, i=int)
    cdef take(self, Automaton automaton, Record record, int node, int state)
    @cython.locals(end=int, at=int, after=int)
    cdef exits(self, Automaton automaton, Record record, int node, int state)
    @cython.locals(top=int)
    cdef enter(self, Automaton automaton, int node, int state)
    @cython.locals(top=int, state=int, only=int, after=int)
    cdef int following(self, Automaton automaton) noexcept
    @cython.locals(at=int, last=int)
    cdef int child_at(self, int only, int after) noexcept
    @cython.locals(at=int, last=int, first=int, after=int, row="Py_ssize_t")
    cdef int among(self, Automaton automaton, int state) noexcept
    @cython.locals(at=int, last=int, after=int)
    cdef int within(self, Automaton automaton, Py_ssize_t row) noexcept
