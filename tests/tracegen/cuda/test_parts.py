"""Labels, names of kernels, LLVM's text, loops and order of blocks, against cases written by hand."""

from __future__ import annotations

import pytest

from tracegen import CudaWorkload
from tracegen.cuda.flow_graph import FlowGraph
from tracegen.cuda.ir import Module, bytes_of, split
from tracegen.cuda.labels import label
from tracegen.cuda.program import kernels, read_program
from tracegen.cuda.variables import variables


@pytest.mark.parametrize(
    ("line", "at", "kind", "expected"),
    [
        ("  y[i] = factor * x[i * stride];", "= f", "store", "store y[i]"),
        ("  y[i] = factor * x[i * stride];", "x[", "load", "x[i * stride]"),
        ("  p[i].x += a->b[3].c;", "+=", "store", "store p[i].x"),
        ("  p[i].x += a->b[3].c;", "c;", "load", "a->b[3].c"),
        ("  *p = *q;", "= *", "store", "store *p"),
        ("  *p = *q;", "*q", "load", "*q"),
        ("  if (a) b[c[i]]++;", "++", "store", "store b[c[i]]"),
        ("  atomicAdd(&h[k], 1);", "atomicAdd", "atomic", "atomicAdd(&h[k], 1)"),
        ("  f(__ldg(&x[i]) + 2);", "__ldg", "load", "__ldg(&x[i])"),
        ("  (*out)[i] = 3;", "= 3", "store", "store (*out)[i]"),
    ],
)
def test_an_access_is_named_after_its_expression(
    line: str, at: str, kind: str, expected: str
) -> None:
    assert label(line, line.index(at) + 1, kind) == expected


def test_names_of_kernels() -> None:
    text = """
    // __global__ void commented(int x);
    extern "C" __global__ void plain(int *x) {}
    template <typename T> __global__ void __launch_bounds__(N * (2), 1) bounded(T *x);
    static __global__ __attribute__((unused)) void other (float x) {}
    """
    assert list(kernels(text)) == ["plain", "bounded", "other"]


IR = """\
%struct.pair = type { i8, double, [3 x i16] }
@tile = internal global [8 x float] undef, align 16
@table = externally_initialized global [4 x %struct.pair] zeroinitializer, align 8
@weights = global [4 x i32] zeroinitializer, section "memsim_constant"
@_ZN1a3dynE = external global [0 x float], align 4

define void @k(ptr "memsim-restrict" noundef %x, i32 %n) #1 !dbg !5 {
entry:
  %a = load i32, ptr %x, align 4, !dbg !7, !tbaa !9
  switch i32 %a, label %late [
    i32 0, label %outer
    i32 1, label %late
  ]

late:                                             ; preds = %entry, %entry
  ret void

outer:                                            ; preds = %outer.latch, %entry
  br i1 %c, label %inner, label %outer.latch

inner:                                            ; preds = %inner, %outer
  br i1 %d, label %inner, label %outer.latch

outer.latch:                                      ; preds = %inner, %outer
  br i1 %e, label %outer, label %done

done:                                             ; preds = %outer.latch
  ret void
}

!1 = !DIFile(filename: "k.cu", directory: ".")
!5 = distinct !DISubprogram(name: "k", file: !1)
!6 = distinct !DISubprogram(name: "helper", file: !1)
!7 = !DILocation(line: 3, column: 4, scope: !6, inlinedAt: !8)
!8 = distinct !DILocation(line: 9, column: 2, scope: !5)
!9 = !{!10, !10, i64 0}
!10 = !{!"int", !11, i64 0}
!12 = !DILocalVariable(name: "x", arg: 1, scope: !5)
!13 = !DILocalVariable(name: "n", arg: 2, scope: !5)
"""


def test_llvm_s_text_is_read() -> None:
    module = Module(IR)
    load, switch = module.functions["k"].blocks[0].instructions
    assert load.parts == ["i32", "ptr %x", "align 4"]
    assert [(p.file, p.line, p.function) for p in module.chain(load.debug)] == [
        ("k.cu", 3, "helper"),
        ("k.cu", 9, "k"),
    ]
    assert module.type_name(load.type_tag) == "int"
    assert switch.opcode == "switch"
    assert module.functions["k"].blocks[0].successors == ["late", "outer"]
    assert module.parameters("k") == ["x", "n"]
    assert module.layout("%struct.pair") == (24, 8)
    assert module.offset("%struct.pair", [1, 2, 1]) == 24 + 16 + 2
    assert bytes_of("<4 x half>") == 8
    assert split("{ i32, float } %x, [2 x ptr] %y") == ["{ i32, float } %x", "[2 x ptr] %y"]


def test_variables_are_told_apart() -> None:
    found = variables(Module(IR)).values()
    assert [(one.name, one.memory, one.size_bytes) for one in found] == [
        ("tile", "shared", 32),
        ("table", "global", 96),
        ("weights", "constant", 16),
        ("dyn", "dynamic", 0),
    ]


def test_loops_and_the_order_of_blocks() -> None:
    """`late` is written first, but lies behind the loop in the source."""
    lines = {"entry": 1.0, "outer": 2.0, "inner": 3.0, "outer.latch": 4.0, "done": 5.0, "late": 6.0}
    graph = FlowGraph(Module(IR).functions["k"], lambda block: lines[block.label])
    assert [(loop.header, sorted(loop.blocks)) for loop in graph.loops] == [
        ("outer", ["inner", "outer", "outer.latch"]),
        ("inner", ["inner"]),
    ]
    assert graph.order == ["entry", "outer", "inner", "outer.latch", "done", "late"]
    controls = graph.controls()
    assert controls["inner"] == {"entry", "outer", "inner", "outer.latch"}
    assert controls["done"] == {"entry"}
    assert controls["entry"] == frozenset()


@pytest.mark.parametrize(
    ("kernel", "integers"),
    [
        ("tiled<32>", {"TILE": 32}),
        ("ns::tiled<0x20, float>", {"TILE": 32}),
        ("tiled<K>", {}),
        ("blocks<128, 8, 4>", {"M": 128, "K": 8, "PER": 4}),
        ("blocks<128>", {"M": 128, "K": 16, "PER": 2}),
        ("plain", {}),
    ],
)
def test_integers_of_a_template(kernel: str, integers: dict[str, int]) -> None:
    """Loops are counted with them; a default holds where an argument is left out."""
    text = """
    namespace ns { template <int TILE, class T = float> __global__ void tiled(T *a) {} }
    template <const int M, unsigned K = 16, int PER = 2> // , int X>
    __global__ void __launch_bounds__(128) blocks(float *a) {}
    __global__ void plain(float *a) {}
    """
    program = read_program(CudaWorkload(source=text, kernel=kernel))
    assert program.template_integers == integers
