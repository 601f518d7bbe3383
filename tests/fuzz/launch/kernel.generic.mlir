"builtin.module"() ({
"tt.func"() <{sym_name = "kernel", sym_visibility = "public"}> ({
^bb0(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %n: i32):
%x = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
%c16 = "arith.constant"() <{value = 16 : i32}> : () -> i32
%first = "arith.muli"(%x, %c16) : (i32, i32) -> i32
%r = "tt.make_range"() <{start = 0 : i32, end = 16 : i32}> : () -> tensor<16xi32>
%fs = "tt.splat"(%first) : (i32) -> tensor<16xi32>
%i = "arith.addi"(%fs, %r) : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi32>
%ns = "tt.splat"(%n) : (i32) -> tensor<16xi32>
%on = "arith.cmpi"(%i, %ns) <{predicate = 2 : i64}> : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi1>
%other = "arith.constant"() <{value = dense<7.0> : tensor<16xf32>}> : () -> tensor<16xf32>
%as = "tt.splat"(%a) : (!tt.ptr<f32>) -> tensor<16x!tt.ptr<f32>>
%ap = "tt.addptr"(%as, %i) : (tensor<16x!tt.ptr<f32>>, tensor<16xi32>) -> tensor<16x!tt.ptr<f32>>
%bs = "tt.splat"(%b) : (!tt.ptr<f32>) -> tensor<16x!tt.ptr<f32>>
%bp = "tt.addptr"(%bs, %i) : (tensor<16x!tt.ptr<f32>>, tensor<16xi32>) -> tensor<16x!tt.ptr<f32>>
%v = "tt.load"(%ap, %on, %other) <{operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<16x!tt.ptr<f32>>, tensor<16xi1>, tensor<16xf32>) -> tensor<16xf32>
"tt.store"(%bp, %v, %on) : (tensor<16x!tt.ptr<f32>>, tensor<16xf32>, tensor<16xi1>) -> ()
"tt.return"() : () -> ()
}) : () -> ()
}) : () -> ()
