"""PTX arithmetic as C++ expressions."""

from operands import C_TYPES, FLOATS, HALVES, Unsupported, bytes_of, double_width, unsigned

# f32 and f64; what PTX calls approximate is computed exactly and rounded once.
FLOAT = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "fma": "std::fma({0}, {1}, {2})",
    "mad": "std::fma({0}, {1}, {2})",
    "neg": "-{0}",
    "abs": "std::fabs({0})",
    "min": "std::fmin({0}, {1})",
    "max": "std::fmax({0}, {1})",
    "sqrt": "std::sqrt({0})",
    "rsqrt": "1 / std::sqrt({0})",
    "rcp": "1 / {0}",
    "ex2": "std::exp2({0})",
    "lg2": "std::log2({0})",
    "sin": "std::sin({0})",
    "cos": "std::cos({0})",
    "tanh": "std::tanh({0})",
    "copysign": "std::copysign({1}, {0})",
}
# rn is what C++ does; approx and full may be anything near
EXACT = ("rn", "approx", "full")
DIRECTED = {"rz": "FE_TOWARDZERO", "rm": "FE_DOWNWARD", "rp": "FE_UPWARD"}
HALF = ("add", "sub", "mul", "fma", "neg", "abs", "min", "max")
INTEGER = {
    "add": "{u}({0}) + {u}({1})",
    "sub": "{u}({0}) - {u}({1})",
    "min": "std::min<{t}>({0}, {1})",
    "max": "std::max<{t}>({0}, {1})",
    "abs": "{0} < 0 ? -{u}({0}) : {u}({0})",
    "neg": "-{u}({0})",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "not": "~{0}",
    "popc": "__builtin_popcountll({0})",
    "clz": "count_leading_zeros<{u}>({0})",
    "brev": "reverse_bits<{u}>({0})",
}
LOGIC = {"and": "{0} && {1}", "or": "{0} || {1}", "xor": "{0} != {1}", "not": "!{0}"}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
COMPARE_UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
ROUND = {"rni": "nearbyint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def half_function(name, ptx_type):
    """A half operation: in double, so that the only rounding that counts is the last."""
    kind = f"Half<{int(ptx_type.startswith('b'))}, {int(ptx_type.endswith('x2'))}>"
    body = FLOAT[name].format("x", "y", "z")
    arguments = "double x, double y, double z"
    return f"{kind}::lift([]({arguments}) -> double {{ (void)y; (void)z; return {body}; }})"


def half(i, args, ops):
    i.take("rn")
    values = [ops.value(a, i.type) for a in args[1:]]
    values += ["0"] * (3 - len(values))
    return ops.assign(args[0], f"{half_function(i.name, i.type)}({', '.join(values)})")


def floating(i, args, ops):
    if i.name not in FLOAT:
        raise Unsupported(i.opcode)
    values = [ops.value(a, i.type) for a in args[1:]]
    rounding = i.take(*DIRECTED)
    if rounding:
        if i.name not in ("add", "sub", "mul", "div", "fma", "sqrt", "rcp"):
            raise Unsupported(i.opcode)
        body = FLOAT[i.name].format("x", "y", "z")
        t, zeros = C_TYPES[i.type], ["0"] * (3 - len(values))
        function = f"[]({t} x, {t} y, {t} z) -> {t} {{ (void)y; (void)z; return {body}; }}"
        expression = f"directed<{t}>({DIRECTED[rounding]}, {', '.join(values + zeros)}, {function})"
    else:
        i.take(*EXACT)
        expression = f"{C_TYPES[i.type]}({FLOAT[i.name].format(*values)})"
    if i.take("ftz"):
        if i.name not in ("ex2", "rcp", "lg2"):
            raise Unsupported(f"{i.opcode}: the kernels are not compiled with fast math")
        expression = f"flush({expression})"
    if i.take("sat"):
        expression = f"saturate({expression})"
    return ops.assign(args[0], expression)


def predicate(i, args, ops):
    values = [ops.value(a, "pred") for a in args[1:]]
    return ops.assign(args[0], LOGIC[i.name].format(*values))


def integer(i, args, ops):
    values = [ops.value(a, i.type) for a in args[1:]]
    names = {"u": unsigned(i.type), "t": C_TYPES[i.type]}
    expression = INTEGER[i.name].format(*values, **names)
    result = "uint32_t" if i.name in ("popc", "clz") else names["t"]
    return ops.assign(args[0], f"{result}({expression})")


def by_type(i, args, ops):
    """One PTX name, three kinds of arithmetic."""
    if i.type in HALVES:
        if i.name not in HALF:
            raise Unsupported(i.opcode)
        return half(i, args, ops)
    if i.type in FLOATS:
        return floating(i, args, ops)
    if i.type == "pred":
        return predicate(i, args, ops)
    return integer(i, args, ops)


def multiply(i, args, ops):
    """mul and mad of integers: the low half, the high half or all of the product."""
    if i.type in HALVES + FLOATS:
        return by_type(i, args, ops)
    part = i.take("wide", "hi", "lo")
    x, y = ops.value(args[1], i.type), ops.value(args[2], i.type)
    u, wide = unsigned(i.type), double_width(i.type)
    if part == "lo":
        result, expression = C_TYPES[i.type], f"{u}({u}({x}) * {u}({y}))"
        if bytes_of(i.type) == 2:  # int would overflow
            expression = f"{u}(uint32_t({u}({x})) * {u}({y}))"
    elif part == "hi":
        result = C_TYPES[i.type]
        expression = f"{u}(({wide}({x}) * {wide}({y})) >> {8 * bytes_of(i.type)})"
    else:
        result, u = wide, wide.replace("int", "uint") if wide[0] == "i" else wide
        expression = f"{u}({wide}({x}) * {wide}({y}))"
    if i.name == "mad":
        addend = f"{i.type[0]}{16 * bytes_of(i.type)}" if part == "wide" else i.type
        expression = f"{u}({expression} + {u}({ops.value(args[3], addend)}))"
    return ops.assign(args[0], f"{result}({expression})")


def divide(i, args, ops):
    if i.type in FLOATS:
        return by_type(i, args, ops)
    x, y = (ops.value(a, i.type) for a in args[1:3])
    function = f"{'quotient' if i.name == 'div' else 'remainder'}<{C_TYPES[i.type]}>"
    return ops.assign(args[0], f"{function}({x}, {y}, {ops.site})")


def bits(i, args, ops):
    """Fields, permutations and shifts."""
    u, t = unsigned(i.type) if i.type[0] != "f" else "", C_TYPES[i.type]

    def values(*types):
        return ", ".join(ops.value(a, kind) for a, kind in zip(args[1:], types))

    same = i.type
    expression = {
        "bfi": lambda: f"insert_field<{u}>({values(same, same, 'u32', 'u32')})",
        "bfe": lambda: f"extract_field<{t}>({values(same, 'u32', 'u32')})",
        "bfind": lambda: (
            f"find_first<{t}>({values(same)}, {str(bool(i.take('shiftamt'))).lower()})"
        ),
        "prmt": lambda: f"permute_bytes({values(same, same, same)})",
        "lop3": lambda: f"logic3({values(same, same, same)}, {args[4]})",
        "shl": lambda: f"shift_left<{u}>({values(same, 'u32')})",
        "shr": lambda: f"shift_right<{t if same[0] == 's' else u}>({values(same, 'u32')})",
    }[i.name]()
    return ops.assign(args[0], expression)


def funnel_shift(i, args, ops):
    left, clamp = i.take("l", "r") == "l", i.take("clamp", "wrap") == "clamp"
    flags = f"{str(left).lower()}, {str(clamp).lower()}"
    low, high, amount = (ops.value(a, "u32") for a in args[1:4])
    return ops.assign(args[0], f"funnel_shift({flags}, {low}, {high}, {amount})")


def comparison(i, x, y):
    kind = i.take(*COMPARE, *COMPARE_UNSIGNED, *(f"{c}u" for c in COMPARE), "num", "nan")
    ordered = f"{x} == {x} && {y} == {y}"
    if kind == "num":
        return f"({ordered})"
    if kind == "nan":
        return f"!({ordered})"
    if kind in COMPARE_UNSIGNED:
        return f"({x} {COMPARE_UNSIGNED[kind]} {y})"
    if kind.endswith("u") and kind[:-1] in COMPARE:
        return f"(!({ordered}) || {x} {COMPARE[kind[:-1]]} {y})"
    if kind == "ne":  # C++'s is true for NaN
        return f"({ordered} && {x} != {y})"
    return f"({x} {COMPARE[kind]} {y})"


def compared(i, args, ops):
    """The truth of setp and set, combined with another predicate if there is one."""
    x, y = ops.value(args[1], i.type), ops.value(args[2], i.type)
    if i.type in HALVES:
        if i.type.endswith("x2"):
            raise Unsupported(i.opcode)
        brain = int(i.type == "bf16")
        x, y = (f"Half<{brain}, 0>::widen({v})" for v in (x, y))
    expression = comparison(i, x, y)
    combined = i.take("and", "or", "xor")
    if combined:
        expression = f"({LOGIC[combined].format(expression, ops.value(args[3], 'pred'))})"
    return expression


def set_predicate(i, args, ops):
    first, *second = args[0].split("|")
    if second and len(args) > 3:
        raise Unsupported(i.opcode)
    text = f"bool q = {compared(i, args, ops)}; {ops.assign(first, 'q')}"
    if second:
        text += f" {ops.assign(second[0], '!q')}"
    return f"{{ {text} }}"


def set_value(i, args, ops):
    """As a number: 1.0, or all bits of an integer."""
    yes = {"f32": "1.0f", "u32": "0xffffffffu", "s32": "0xffffffffu"}[i.types[0]]
    no = "0.0f" if i.types[0] == "f32" else "0u"
    return ops.assign(args[0], f"({compared(i, args, ops)} ? {yes} : {no})")


def select(i, args, ops):
    a, b = ops.value(args[1], i.type), ops.value(args[2], i.type)
    return ops.assign(args[0], f"({ops.value(args[3], 'pred')} ? {a} : {b})")


def convert_to_half(i, args, ops, target, source):
    kind = f"Half<{int(target.startswith('b'))}, 0>"
    if not i.take("rn") and source not in HALVES:
        raise Unsupported(i.opcode)
    if target.endswith("x2"):  # the first source is the upper half
        high, low = (f"{kind}::round({ops.value(a, 'f32')})" for a in args[1:3])
        return ops.assign(args[0], f"(uint32_t({high}) << 16 | {low})")
    value = ops.value(args[1], source)
    if source in HALVES:
        value = f"Half<{int(source[0] == 'b')}, 0>::widen({value})"
    elif source != "f32":
        raise Unsupported(i.opcode)
    return ops.assign(args[0], f"{kind}::round({value})")


def convert(i, args, ops):
    target, source = i.types[0], i.types[-1]
    if len(i.types) == 1:
        raise Unsupported(i.opcode)
    if target in HALVES:
        return convert_to_half(i, args, ops, target, source)
    if target == "tf32":
        if not i.take("rna"):
            raise Unsupported(i.opcode)
        return ops.assign(args[0], f"round_to_tf32({ops.value(args[1], 'b32')})")
    value, c_type = ops.value(args[1], source), C_TYPES[target]
    if source in HALVES:
        value, source = f"Half<{int(source[0] == 'b')}, 0>::widen({value})", "f32"
    rounding = i.take(*ROUND)
    if rounding:
        value = f"std::{ROUND[rounding]}({value})"
    if target in FLOATS:
        i.take("rn")
        expression = f"{c_type}({value})"
        if i.take("sat"):
            expression = f"saturate({expression})"
        return ops.assign(args[0], expression)
    if source in FLOATS:
        if not rounding:
            raise Unsupported(i.opcode)
        return ops.assign(args[0], f"to_integer<{c_type}>({value})")
    return ops.assign(args[0], f"{c_type}({value})")


FUNCTIONS = {
    **dict.fromkeys([*FLOAT, *INTEGER], by_type),
    "mul": multiply,
    "mad": multiply,
    "div": divide,
    "rem": divide,
    **dict.fromkeys(["bfi", "bfe", "bfind", "prmt", "lop3", "shl", "shr"], bits),
    "shf": funnel_shift,
    "setp": set_predicate,
    "set": set_value,
    "selp": select,
    "cvt": convert,
}
