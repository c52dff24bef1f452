cimport cython

from dragoman.grammar.lazy_automaton cimport Automaton

cdef int _NEW, _NEVER
cdef unsigned int _ONE

@cython.locals(i=int)
cpdef scatter(unsigned int[::1] row, int[::1] tokens)


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
    cdef public int[::1] ends_stack
    cdef public int[::1] state_stack
    cdef public list arrays
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
    @cython.locals(i=int, j=int, limit=int, top=int, steps=int, byte=int, only=int, after=int, need=int,
                   edges="unsigned char[::1]", ends="int[::1]", starts="int[::1]", end_of="int[::1]",
                   state_of="int[::1]", only_of="int[::1]", after_of="int[::1]", need_of="int[::1]",
                   leaves_of="signed char[::1]", rows="int[::1]")
    cdef bint below(self, Automaton automaton, int node, int state, int budget) except -1
