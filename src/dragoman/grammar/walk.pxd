cimport cython

from dragoman.grammar.lazy_automaton cimport Automaton

cdef int _DEAD, _NEVER, _WIDE
cdef unsigned int _ONE

@cython.locals(i=int)
cpdef scatter(unsigned int[::1] row, const int[::1] tokens, bint clear)


@cython.final
cdef class Record:
    cdef public unsigned char[::1] home
    cdef public int[::1] tokens
    cdef public int[::1] before
    cdef public int[::1] exits

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
    @cython.locals(record=int)
    cdef bint below(self, Automaton automaton, int node, int state, int budget) except -1
    @cython.locals(i=int, count=int, row="Py_ssize_t")
    cdef bint repeats(self, Automaton automaton, int state) except -1
    @cython.locals(end=int, need=int, first=int, past=int, i=int, at=int, after=int)
    cdef take(self, Automaton automaton, Record record, int node, int state)
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
