"""PTX to C++: python translate.py IN.ptx OUT.cc. Every kernel becomes a function of one thread.

Nothing is skipped: an instruction or a modifier that is not known ends the translation with its
text. The C++ runs on the engine's fibers; see ptx.h for what it calls.
"""

import re
import sys
from pathlib import Path

from instructions import translate
from operands import C_TYPES, Operands, Unsupported, bytes_of, identifier

SHARED = re.compile(r"\.shared (?:\.align (\d+) )?\.(\w+) ([\w$]+)(?:\[(\d+)\])?")
EXTERN_SHARED = re.compile(r"\.extern \.shared (?:\.align (\d+) )?\.\w+ ([\w$]+)\[\]")
VARIABLE = re.compile(
    r"(?:\.visible |\.extern |\.weak )*\.(const|global) (?:\.attribute\(\S+\) )?\.align (\d+) "
    r"\.(\w+) ([\w$]+)(?:\[(\d+)\])?(?: = (.*))?$"
)
PARAMETER = re.compile(
    r"\.param (?:\.align (\d+) )?\.(\w+) (?:\.ptr[^,]*? )?([\w$]+)(?:\[(\d+)\])?"
)
LOCATION = re.compile(
    r"\.loc (\d+) (\d+) (\d+)(?:, function_name [^,]+, inlined_at (\d+) (\d+) (\d+))?"
)
INSTRUCTION = re.compile(r"(?:@(!?)(%?\w+) )?([\w.:]+) ?(.*)")


def align(offset, alignment):
    return -(-offset // alignment) * alignment


def split_arguments(text):
    """Splits at the commas outside of braces and brackets."""
    parts, depth, current = [], 0, ""
    for c in text:
        depth += (c in "{[(") - (c in "}])")
        if c == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += c
    return parts + ([current.strip()] if current.strip() else [])


def statements(text):
    """The statements of a body; braces, labels and .loc directives are statements too."""
    text = text.replace("\t", " ")
    text = re.sub(r"^\s*([\w$]+):", r";\1:;", text, flags=re.MULTILINE)
    text = re.sub(r"^\s*(\.loc [^\n]*)$", r"\1;", text, flags=re.MULTILINE)
    depth, current = 0, ""
    for piece in re.split(r"(;|[{}])", text):
        # a brace after an operand opens a vector; at the start of a statement, a scope
        if piece in "{}" and piece and (depth or current.strip()):
            depth += 1 if piece == "{" else -1
            current += piece
        elif piece in (";", "{", "}"):
            if current.strip():
                yield " ".join(current.split())
            current = ""
            if piece in ("{", "}"):
                yield piece
        else:
            current += piece


class Sites:
    """Where each instruction comes from, with the calls that were inlined around it."""

    def __init__(self, files):
        self.files, self.parents, self.table, self.here = files, {}, {}, None

    def name(self, number):
        return Path(self.files.get(number, "?")).name

    def see(self, location):
        """A .loc directive; those of the calls around it come before it, outermost first."""
        self.here = tuple(location[:3])
        self.parents[self.here] = tuple(location[3:]) if location[3] else None
        # for debuggers and sanitizers
        return f'#line {self.here[1]} "{self.files.get(self.here[0], "?")}"'

    def reference(self):
        """C++ for the place of the instruction that is being translated."""
        chain, here = [], self.here
        while here is not None and len(chain) < 8:
            chain.append(f"{self.name(here[0])}:{here[1]}")
            here = self.parents.get(here)
        text = ", inlined in ".join(chain) or "?:0"
        return f"kSites[{self.table.setdefault(text, len(self.table))}]"

    def definition(self):
        rows = [text.rpartition(":") for text in self.table] or [("?", ":", "0")]
        body = "".join(f'    {{"{place}", {line}}},\n' for place, _, line in rows)
        return f"static const emu::Site kSites[] = {{\n{body}}};\n"


class Kernel:
    """One .entry: its parameters, its shared memory, its body."""

    def __init__(self, name, header, body, module):
        self.name, self.module = name, module
        self.ops = Operands(dict(module.symbols), module.sites)
        self.declarations, self.code, self.targets = [], [], {}
        self.offsets, self.sizes, self.parameter_bytes = [], [], 0
        for text in split_arguments(header.partition("(")[2].rpartition(")")[0]):
            self.add_parameter(PARAMETER.fullmatch(" ".join(text.split())))
        self.shared_bytes = self.lay_out_shared_memory(body)
        bound = re.search(r"\.(?:maxntid|reqntid) ([\d, ]+)", header)
        self.most_threads = 1024
        if bound:
            self.most_threads = 1
            for size in bound[1].split(","):
                self.most_threads *= int(size)
        for statement in statements(body):
            self.add(statement)

    def add_parameter(self, match):
        alignment, kind, name, count = match.groups()
        size = bytes_of(kind)
        offset = align(self.parameter_bytes, int(alignment or size))
        self.ops.symbols[name] = str(offset)
        self.offsets.append(offset)
        self.sizes.append(size * int(count or 1))
        self.parameter_bytes = offset + self.sizes[-1]

    def lay_out_shared_memory(self, body):
        end = 0
        for alignment, kind, name, count in SHARED.findall(body):
            end = align(end, int(alignment or bytes_of(kind)))
            self.ops.symbols[name] = str(end)
            end += bytes_of(kind) * int(count or 1)
        # dynamic shared memory follows what is static
        end = align(end, 16) if self.module.dynamic_shared else end
        for name in self.module.dynamic_shared:
            self.ops.symbols[name] = str(end)
        return end

    def add(self, statement):
        location = LOCATION.fullmatch(statement)
        if location:
            self.code.append(self.module.sites.see(location.groups()))
        elif statement in "{}":
            self.code.append(statement)
        elif statement.startswith(".reg"):
            self.add_registers(statement)
        elif statement.startswith(".local"):
            self.add_local(statement)
        elif statement.startswith((".shared", ".pragma")):
            pass
        elif ": .branchtargets" in statement or statement.startswith(".branchtargets"):
            targets = statement.partition(".branchtargets")[2]
            self.targets[self.last_label] = [t.strip() for t in targets.split(",")]
        elif re.fullmatch(r"[\w$]+:", statement):
            self.last_label = statement[:-1]
            self.code.append(f"{identifier(self.last_label)}:;")
        else:
            self.add_instruction(statement)

    def add_registers(self, statement):
        kind, names = re.fullmatch(r"\.reg \.(\w+) (.*)", statement).groups()
        for name in split_arguments(names):
            family = re.fullmatch(r"(%?[\w$]+)<(\d+)>", name)
            members = [f"{family[1]}{n}" for n in range(int(family[2]))] if family else [name]
            for member in members:
                self.ops.registers.add(member)
                text = f"{C_TYPES[kind]} {identifier(member)}"
                # a register of an inline assembly's scope stays in its braces
                if "{" in self.code:
                    self.code.append(text + ";")
                else:
                    self.declarations.append(text + "{};")

    def add_local(self, statement):
        pattern = r"\.local \.align (\d+) \.b8 ([\w$]+)\[(\d+)\]"
        alignment, name, size = re.fullmatch(pattern, statement).groups()
        self.declarations.append(f"alignas({alignment}) char {identifier(name)}[{size}];")
        self.ops.symbols[name] = f"uint64_t({identifier(name)})"

    def add_instruction(self, statement):
        match = INSTRUCTION.fullmatch(statement)
        if not match:
            raise SystemExit(f"{self.name}: cannot read: {statement}")
        negation, predicate, opcode, arguments = match.groups()
        try:
            text = self.branch(opcode, split_arguments(arguments))
        except Unsupported as error:
            raise SystemExit(f"{self.name}: unsupported: {statement} ({error})") from error
        if predicate:
            text = f"if ({negation}{identifier(predicate)}) {{ {text} }}"
        self.code.append(f"{text}  // {statement}")

    def branch(self, opcode, arguments):
        if opcode in ("bra", "bra.uni"):
            return f"goto {identifier(arguments[0])};"
        if opcode in ("brx.idx", "brx.idx.uni"):
            cases = [
                f"case {n}: goto {identifier(label)};"
                for n, label in enumerate(self.targets[arguments[1]])
            ]
            return f"switch ({self.ops.value(arguments[0], 'u32')}) {{ {' '.join(cases)} }}"
        return translate(opcode, arguments, self.ops)

    def text(self):
        lists = [", ".join(map(str, values)) for values in (self.offsets, self.sizes)]
        return (
            f"static void {self.name}(const char* parameters) {{\n  (void)parameters;\n  "
            + "\n  ".join([*self.declarations, *self.code])
            + f'\n}}\nstatic const emu::RegisterKernel register_{self.name}("{self.name}", '
            f"{{{self.name}, {{{lists[0]}}}, {{{lists[1]}}}, {self.parameter_bytes}, "
            f"{self.shared_bytes}, {self.most_threads}}});\n\n"
        )


class Module:
    """A PTX file."""

    def __init__(self, text):
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        text = re.sub(r"//[^\n]*", "", text)
        files = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', text, flags=re.MULTILINE))
        self.sites = Sites(files)
        self.dynamic_shared = [name for _, name in EXTERN_SHARED.findall(" ".join(text.split()))]
        self.symbols, self.variables = {}, []
        outside, kernels = self.split(text)
        for statement in outside.split(";"):
            variable = VARIABLE.search(" ".join(statement.split()))
            if variable:
                self.add_variable(*variable.groups())
        self.kernels = [Kernel(*kernel, self) for kernel in kernels]

    @staticmethod
    def split(text):
        """What is outside of functions, and (name, header, body) of each kernel."""
        outside, kernels, position = "", [], 0
        for match in re.finditer(r"(?:\.visible |\.weak )*\.(entry|func)\b([^{;]*)\{", text):
            if match.start() < position:
                continue
            if match[1] == "func":
                raise SystemExit(f"unsupported: a function that is not inlined: {match[2].strip()}")
            depth, end = 1, match.end()
            while depth:
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            name = re.search(r"[\w$]+", match[2])[0]
            kernels.append((name, " ".join(match[2].split()), text[match.end() : end - 1]))
            outside += text[position : match.start()]
            position = end
        return outside + text[position:], kernels

    def add_variable(self, _, alignment, kind, name, count, initial):
        values = (initial or "").strip() or "{}"
        values = values if values.startswith("{") else f"{{{values}}}"
        count, own = int(count or 1), f"variable_{identifier(name)}"
        self.variables.append(
            f"alignas({alignment}) static {C_TYPES[kind]} {own}[{count}] = {values};\n"
            f'static const emu::RegisterVariable register_{own}("{name}", {own}, sizeof({own}));\n'
        )
        self.symbols[name] = f"uint64_t({own})"

    def text(self):
        kernels = "".join(kernel.text() for kernel in self.kernels)
        return "".join(
            ['#include "ptx.h"\n\n', self.sites.definition(), *self.variables, "\n", kernels]
        )


def main():
    source, target = map(Path, sys.argv[1:])
    target.write_text(Module(source.read_text()).text())


if __name__ == "__main__":
    main()
