// No code: what paddle_ops.jit.sources() offers when the operators are registered already.
