cimport cython

cdef int _DEAD, _NEVER, _NEW, _ASK, _TAIL, _SPARE, _LONGEST, _FEW
cdef int _BYTES, _SYMBOL, _SPLIT, _JUMP, _CALL, _RETURN, _COUNT, _LOOP, _AGAIN, _MARK, _PERM
cdef int _SCAN, _LEAVE, _DROP, _REQUIRE, _REQUIRE_OR_END, _REFUSE, _MATCH, _ACCEPT, _ENTER

cdef long long _packed(long long at, long long frame, long long guard)


@cython.final
cdef class Position:
    cdef public object generation
    cdef public int state
    cdef public int base
    cdef public int absolute
    cdef public object mask
    cdef public dict next


@cython.final
cdef class Automaton:
    cdef public object program
    cdef public list args
    cdef public int code_size
    cdef public signed char[::1] op
    cdef public int[::1] then
    cdef public unsigned char[::1] live
    cdef public int[::1] same
    cdef public dict heads
    cdef public object guards
    cdef public object limits
    cdef public int bases
    cdef public int root
    cdef public list links
    cdef public object depth
    cdef public object rounds
    cdef public dict frames
    cdef public dict merges
    cdef public dict numbers
    cdef public list threads
    cdef public list exits
    cdef public list symbols
    cdef public list accepts
    cdef public list waiting
    cdef public int size
    cdef public int[::1] byte
    cdef public int[::1] after
    cdef public int[::1] need
    cdef public int[::1] most
    cdef public signed char[::1] leaves
    cdef public short[::1] wide
    cdef public signed char[::1] record
    cdef public unsigned long long[::1] loops
    cdef public int[::1] rows
    cdef public int row_count
    cdef public long long[::1] stack
    cdef public long long[::1] met_first
    cdef public set met_later
    cdef public int met_count
    cdef public dict tails
    cdef public int reached
    cdef public int stopped
    cdef public int[::1] set_of
    cdef public object byte_sets
    cdef public dict set_numbers
    cdef public list runs
    cdef public int[::1] class_of
    cdef public int[::1] class_above
    cdef public int[::1] class_next
    cdef public int[::1] class_state
    cdef public long long[::1] class_turn
    cdef public long long[::1] class_thread
    cdef public int class_count
    cdef public long long turn

    @cython.locals(number=int, depth=int, rounds=int, parent=int)
    cpdef int frame(self, tuple links) except -2
    cpdef int merged(self, int a, int b) except -2
    @cython.locals(op=int)
    cpdef list ways(self, int at, int frame, int guard)
    cpdef int looking(self, int op, object argument, int guard) except -2
    cpdef list loop_ways(self, int at, int frame, int guard)
    cpdef list perm_ways(self, int at, int frame, int guard)
    cdef int target(self, int at) except -2
    cpdef int entered(self, int at) except -2
    @cython.locals(code=list, size=int, more=int, at=int, op=int, following=int)
    cpdef read(self)
    @cython.locals(found=int, size=int, chain=list)
    cpdef int known(self, int at) except -3
    @cython.locals(chain=list, key=cython.longlong)
    cpdef int returning(self, int at, int back) except -2
    @cython.locals(at=int, known=int)
    cpdef int head(self, object bits, int following) except -2
    @cython.locals(at=int, op=int, frame=int, known=int, ways=list, after=cython.longlong)
    cpdef long long settled(self, long long thread) except *
    @cython.locals(link=tuple)
    cdef long long onward(self, int at, int op, int frame, int guard) except *
    @cython.locals(key=tuple, number=int)
    cpdef int state(self, object threads) except -2
    @cython.locals(number=int)
    cdef int alone(self, long long thread) except -2
    @cython.locals(thread=cython.longlong, frame=cython.longlong, place=cython.longlong, other=int, merged=int)
    cpdef tuple joined(self, object threads)
    @cython.locals(number=int, least=int, most=int, thread=cython.longlong, frame=int, need=int, at=int, op=int,
                   waiting=list, symbols=list, exits=set, todo=int, after=cython.longlong)
    cdef int made(self, tuple key) except -2
    @cython.locals(count=int, i=int)
    cdef bint met(self, long long thread) except -1
    @cython.locals(thread=cython.longlong)
    cdef int pushed(self, int todo, object threads) except -2
    @cython.locals(target=cython.longlong)
    cdef int split(self, int todo, int at, long long rest) except -2
    @cython.locals(number=int)
    cdef note(self, tuple key, int least, int most, tuple waiting, tuple exits, tuple symbols, bint accepts)
    cpdef grow(self)
    @cython.locals(only=int)
    cpdef int step(self, int state, int byte) except -2
    cpdef int width(self, int state) except -2
    @cython.locals(thread=cython.longlong, count=int)
    cpdef bint narrow(self, int state, int most) except -1
    @cython.locals(thread=cython.longlong)
    cpdef bint stays(self, int state) except -1
    @cython.locals(end=int, after=int)
    cpdef int ahead(self, int state, bytes data, int at, int room) except -2
    @cython.locals(key=tuple, found=Position)
    cpdef Position along(self, Position position, bytes data, dict known, int room)
    @cython.locals(thread=cython.longlong, at=int, guard=int, after=cython.longlong, out=list)
    cpdef int step_symbol(self, int state, int symbol) except -2
    @cython.locals(thread=cython.longlong, row="Py_ssize_t", number=int, width=int, i=int, waiting=tuple)
    cpdef expand(self, int state)
    @cython.locals(at=int, after=cython.longlong)
    cdef bint only(self, int state, long long thread) except -1
    cdef int set_at(self, int at) except -2
    @cython.locals(at=int, frame=int, guard=int, after=cython.longlong)
    cdef follow(self, long long thread)
    @cython.locals(above=int, at=int, end=int, i=int, runs=bytes)
    cdef sort_in(self, int number, long long after)
    cdef int new_class(self, int above, long long after) noexcept
    @cython.locals(out=list)
    cdef int class_reached(self, int number) except -2
    cdef more_classes(self)
    cpdef int new_row(self) except -2
