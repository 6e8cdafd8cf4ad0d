"""PTX instructions as C++ statements: what is not arithmetic, and which function does what."""

import re

import arithmetic
from operands import C_TYPES, Unsupported, bytes_of, elements

# Modifiers without a meaning for one thread at a time: caching, ordering, scope.
HINTS = re.compile(
    r"nc|ca|cg|cs|lu|cv|wb|wt|volatile|weak|relaxed|acquire|release|acq_rel|gpu|cta|sys|uni"
    r"|aligned|L1::\w+|L2::\w+|noftz"
)
SPACES = ("global", "shared", "local", "param", "const")
ATOMIC = {
    "add": "x + y",
    "min": "y < x ? y : x",
    "max": "x < y ? y : x",
    "exch": "y",
    "and": "x & y",
    "or": "x | y",
    "xor": "x ^ y",
    "inc": "x >= y ? 0 : x + 1",
    "dec": "x == 0 || x > y ? y : x - 1",
}


class Instruction:
    """An opcode taken apart: its name, its types, its other modifiers."""

    def __init__(self, opcode):
        self.opcode = opcode
        self.name, *parts = opcode.replace("shared::cta", "shared").split(".")
        self.types = [p for p in parts if p in C_TYPES]
        self.space = next((p for p in parts if p in SPACES), "")
        self.modifiers = [
            p for p in parts if p not in C_TYPES and p not in SPACES and not HINTS.fullmatch(p)
        ]

    @property
    def type(self):
        """The last type: that of the sources."""
        if not self.types:
            raise Unsupported(self.opcode)
        return self.types[-1]

    def take(self, *names):
        """Takes the first of these modifiers that is there out of the list."""
        for name in names:
            if name in self.modifiers:
                self.modifiers.remove(name)
                return name
        return ""

    def vector(self):
        taken = self.take("v2", "v4", "v8")
        return int(taken[1:]) if taken else 1

    def finish(self):
        """Nothing may be left that nobody has looked at."""
        if self.modifiers:
            raise Unsupported(self.opcode)


def load(i, args, ops):
    size, count = bytes_of(i.type), i.vector()
    address = ops.address(args[1], i.space, size * count, False)
    gets = [
        ops.assign(d, f"get<{C_TYPES[i.type]}>(q + {n * size})")
        for n, d in enumerate(elements(args[0]))
    ]
    return f"{{ const char* q = {address}; {' '.join(gets)} }}"


def store(i, args, ops):
    size, count = bytes_of(i.type), i.vector()
    address = ops.address(args[0], i.space, size * count, True)
    sets = [
        f"set<{C_TYPES[i.type]}>(q + {n * size}, {ops.value(v, i.type)});"
        for n, v in enumerate(elements(args[1]))
    ]
    return f"{{ char* q = {address}; {' '.join(sets)} }}"


def atomic(i, args, ops):
    destination, rest = ("_", args) if i.name == "red" else (args[0], args[1:])
    count, size, c_type = i.vector(), bytes_of(i.type), C_TYPES[i.type]
    address = ops.address(rest[0], i.space, size * count, True)
    if i.take("cas"):
        swap = (
            f"atomic_cas<{c_type}>(q, {ops.value(rest[1], i.type)}, {ops.value(rest[2], i.type)})"
        )
        return f"{{ char* q = {address}; {ops.assign(destination, swap)} }}"
    kind = i.take(*ATOMIC)
    if not kind or (i.type.endswith("x2") and kind != "add"):
        raise Unsupported(i.opcode)
    if i.type in ("f16", "bf16", "f16x2", "bf16x2"):
        function = arithmetic.half_function("add", i.type)
    else:
        function = f"[]({c_type} x, {c_type} y) -> {c_type} {{ (void)x; return {ATOMIC[kind]}; }}"
    values = elements(rest[1])
    destinations = ["_"] * count if destination == "_" else elements(destination)
    updates = [
        ops.assign(d, f"atomic<{c_type}>(q + {n * size}, {ops.value(v, i.type)}, {function})")
        for n, (d, v) in enumerate(zip(destinations, values))
    ]
    return f"{{ char* q = {address}; {' '.join(updates)} }}"


def move(i, args, ops):
    target, source = args
    c_type = C_TYPES[i.type]
    if "{" in target:
        parts = elements(target)
        bits = 8 * bytes_of(i.type) // len(parts)
        pieces = [ops.assign(d, f"uint{bits}_t(q >> {n * bits})") for n, d in enumerate(parts)]
        return f"{{ {c_type} q = {ops.value(source, i.type)}; {' '.join(pieces)} }}"
    if "{" in source:
        parts = elements(source)
        bits = 8 * bytes_of(i.type) // len(parts)
        pieces = [
            f"({c_type}({ops.value(v, f'b{bits}')}) << {n * bits})" for n, v in enumerate(parts)
        ]
        return ops.assign(target, f"{c_type}({' | '.join(pieces)})")
    return ops.assign(target, ops.value(source, i.type))


def convert_address(i, args, ops):
    """Only shared memory has addresses of its own; the others are generic already."""
    value, to = ops.value(args[1], i.type), i.take("to")
    if i.space == "shared":
        sign = "-" if to else "+"
        value = f"({value} {sign} uint64_t(emu::shared_window.start))"
    return ops.assign(args[0], value)


def barrier(i, args, ops):
    i.take("sync")
    if i.take("warp"):
        i.take("sync")
        return f"emu::sync_warp({ops.value(args[0], 'b32')}, {ops.site});"
    if args != ["0"]:
        raise Unsupported(f"{i.opcode}: a barrier other than 0, or for a part of the block")
    return f"emu::barrier({ops.site});"


def nothing(i, args, ops):
    """Fences and prefetches: the memory of one CPU thread is in order anyway."""
    i.modifiers.clear()
    i.types.clear()
    return ";"


def leave(i, args, ops):
    return "return;"


def trap(i, args, ops):
    return f'throw emu::Fault("trap at " + emu::to_string({ops.site}));'


def shuffle(i, args, ops):
    i.take("sync")
    modes = {"up": "kUp", "down": "kDown", "bfly": "kXor", "idx": "kIndex"}
    mode = modes[i.take(*modes)]
    result, *predicate = args[0].split("|")
    operand, clamp, mask = (ops.value(a, "b32") for a in args[2:5])
    call = f"emu::shuffle(emu::Shuffle::{mode}, {mask}, &v, &r, 4, {operand}, {clamp}, {ops.site})"
    keep = ops.assign(predicate[0], "p") if predicate else "(void)p;"
    return (
        f"{{ uint32_t v = {ops.value(args[1], 'b32')}, r; bool p = {call}; "
        f"{ops.assign(result, 'r')} {keep} }}"
    )


def vote(i, args, ops):
    i.take("sync")
    predicate, mask = ops.value(args[1], "pred"), ops.value(args[2], "b32")
    kind = i.take("ballot", "any", "all")
    if kind == "ballot":
        return ops.assign(args[0], f"emu::ballot({mask}, {predicate}, {ops.site})")
    if kind == "any":
        return ops.assign(args[0], f"(emu::ballot({mask}, {predicate}, {ops.site}) != 0)")
    if kind == "all":
        return ops.assign(args[0], f"(emu::ballot({mask}, !{predicate}, {ops.site}) == 0)")
    raise Unsupported(i.opcode)


def mma(i, args, ops):
    """d = a b + c with accumulators in f32."""
    shape = i.take("m16n8k16", "m16n8k8")
    i.take("sync"), i.take("row"), i.take("col")
    kind = f"{shape}_{i.types[1]}"
    if i.types[0] != "f32" or kind not in ("m16n8k16_f16", "m16n8k16_bf16", "m16n8k8_tf32"):
        raise Unsupported(i.opcode)
    d, a, b, c = (elements(operand) for operand in args)
    lists = [
        f"uint32_t {n}[] = {{{', '.join(ops.value(v, 'b32') for v in vs)}}};"
        for n, vs in (("a", a), ("b", b))
    ]
    lists.append(f"float c[] = {{{', '.join(ops.value(v, 'f32') for v in c)}}}, d[4];")
    results = " ".join(ops.assign(r, f"d[{n}]") for n, r in enumerate(d))
    return f"{{ {' '.join(lists)} emu::mma_{kind}(d, a, b, c, {ops.site}); {results} }}"


def copy_async(i, args, ops):
    if not i.take("async"):
        raise Unsupported(i.opcode)
    if i.take("commit_group"):
        return "emu::async_commit();"
    if i.take("wait_group"):
        return f"emu::async_wait({args[0]});"
    if i.take("wait_all"):
        return "emu::async_commit(); emu::async_wait(0);"
    size = int(args[2])
    # [shared], [global], size and, where the rest becomes zeros, how many bytes are read
    read = ops.value(args[3], "u32") if len(args) > 3 else f"{size}u"
    to = ops.address(args[0], "shared", size, True)
    source = ops.address(args[1], "global", size, False)
    return (
        f"{{ uint32_t n = {read}; emu::async_copy({to}, n == 0 ? nullptr : {source}, n, "
        f"{size} - n); }}"
    )


FUNCTIONS = {
    "ld": load,
    "ldu": load,
    "st": store,
    "atom": atomic,
    "red": atomic,
    "mov": move,
    "cvta": convert_address,
    "bar": barrier,
    "barrier": barrier,
    "membar": nothing,
    "fence": nothing,
    "griddepcontrol": nothing,
    "prefetch": nothing,
    "prefetchu": nothing,
    "ret": leave,
    "exit": leave,
    "trap": trap,
    "shfl": shuffle,
    "vote": vote,
    "mma": mma,
    "cp": copy_async,
    **arithmetic.FUNCTIONS,
}


def translate(opcode, args, ops):
    """One instruction without its predicate; Unsupported if not understood in full."""
    instruction = Instruction(opcode)
    function = FUNCTIONS.get(instruction.name)
    if function is None:
        raise Unsupported(opcode)
    try:
        text = function(instruction, args, ops)
    except (KeyError, IndexError, ValueError) as error:
        raise Unsupported(f"{opcode} {', '.join(args)}") from error
    instruction.finish()
    return text
