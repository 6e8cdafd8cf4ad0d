"""Operands of PTX instructions as C++ expressions."""

import re

# The C++ type of a register or of a value in memory. Halves are kept as their bits.
C_TYPES = {
    **{f"{kind}{bits}": f"uint{bits}_t" for kind in "ub" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    "f16": "uint16_t",
    "bf16": "uint16_t",
    "f16x2": "uint32_t",
    "bf16x2": "uint32_t",
    "tf32": "uint32_t",
    "f32": "float",
    "f64": "double",
    "b128": "u128",
    "pred": "bool",
}
FLOATS = ("f32", "f64")
HALVES = ("f16", "bf16", "f16x2", "bf16x2")
AXES = {"tid": "threadIdx", "ctaid": "blockIdx", "ntid": "blockDim", "nctaid": "gridDim"}
SPECIAL = {f"%{ptx}.{d}": f"{cuda}.{d}" for ptx, cuda in AXES.items() for d in "xyz"}
SPECIAL["%laneid"] = "emu::lane_id()"
SPECIAL["WARP_SZ"] = "32"


class Unsupported(Exception):
    """The translator does not know this text."""


def bytes_of(ptx_type):
    if ptx_type == "pred":
        return 1
    if ptx_type in ("f16x2", "bf16x2"):
        return 4
    return int(re.sub(r"^\D*", "", ptx_type)) // 8


def unsigned(ptx_type):
    return f"uint{8 * bytes_of(ptx_type)}_t"


def double_width(ptx_type):
    """The type of a product in full: s64 of s32."""
    if bytes_of(ptx_type) == 8:
        return "__int128" if ptx_type[0] == "s" else "u128"
    return C_TYPES[("s" if ptx_type[0] == "s" else "u") + str(16 * bytes_of(ptx_type))]


def identifier(name):
    return re.sub(r"\W", "_", name)


def elements(text):
    """The members of {a, b}, or the operand itself."""
    return [part.strip() for part in text.strip().strip("{}").split(",")]


class Operands:
    """The names of one function; `symbols` maps those of memory to addresses or offsets."""

    def __init__(self, symbols, sites):
        self.symbols, self.sites = symbols, sites
        self.registers = set()

    @property
    def site(self):
        return self.sites.reference()

    def value(self, operand, ptx_type):
        """An operand that is read, as C++ of that type."""
        operand = operand.strip()
        c_type = C_TYPES[ptx_type]
        if operand in SPECIAL:
            return f"{c_type}({SPECIAL[operand]})"
        if operand.startswith("!"):
            return f"(!{self.value(operand[1:], ptx_type)})"
        if operand in self.registers:
            return f"as<{c_type}>({identifier(operand)})"
        if re.match(r"0[fF][0-9a-fA-F]{8}$", operand):
            return f"as<{c_type}>(as<float>(0x{operand[2:]}u))"
        if re.match(r"0[dD][0-9a-fA-F]{16}$", operand):
            return f"as<double>(0x{operand[2:]}ull)"
        if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)U?", operand):
            if operand == "-9223372036854775808":
                return f"{c_type}(INT64_MIN)"
            return f"{c_type}({operand.rstrip('U')}{'ull' if operand[0] != '-' else 'll'})"
        match = re.fullmatch(r"([\w$]+)(\+\d+)?", operand)
        if match and match[1] in self.symbols:
            return f"{c_type}({self.symbols[match[1]]}{match[2] or ''})"
        raise Unsupported(f"operand {operand}")

    def address(self, operand, space, size, write):
        """A checked pointer to [register + offset] or [symbol + offset]."""
        match = re.fullmatch(r"\[\s*(%?[\w$.]+)\s*(?:\+\s*(-?\d+))?\s*\]", operand.strip())
        if not match:
            raise Unsupported(f"address {operand}")
        base = self.value(match[1], "b64" if match[1] in self.registers else "u64")
        place = f"{base} + {match[2]}" if match[2] else base
        if space == "param":
            return f"(parameters + ({place}))"
        if space == "shared":
            # a shared address may be held in 32 bits
            return f"emu::shared_address(uint32_t({place}), {size}, {self.site})"
        if space == "local":
            return f"reinterpret_cast<char*>({place})"
        if space == "const":
            write = False
        return f"emu::global_address({place}, {size}, {str(write).lower()}, {self.site})"

    def assign(self, destination, expression):
        """destination = expression; _ drops it."""
        destination = destination.strip()
        if destination == "_":
            return f"(void)({expression});"
        if destination not in self.registers:
            raise Unsupported(f"destination {destination}")
        return f"put({identifier(destination)}, {expression});"
