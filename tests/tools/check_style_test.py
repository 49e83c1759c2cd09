"""Each rule of tools/check_style fails on a file that breaks it, and passes on one that does not."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECK = os.path.join(ROOT, "tools", "check_style")
LAYERS = """layer kernels:
layer engine: kernels
layer engine/text: kernels
layer server: engine
library grpcpp/: server
"""


def has_clang_format():
    for tool in ("clang-format-14", "clang-format"):
        if shutil.which(tool):
            version = subprocess.run([tool, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
            return "version 14." in version
    return False


class CheckStyle(unittest.TestCase):
    def run_on(self, files, layers=LAYERS, clang_format=False):
        """Exit status and output of the check on a tree of these files."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in {"tools/layers.txt": layers, **files}.items():
                target = os.path.join(root, path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "w", encoding="utf-8", newline="") as file:
                    file.write(text)
            shutil.copy(os.path.join(ROOT, ".clang-format"), root)
            command = [sys.executable, CHECK, "--root", root] + ([] if clang_format else ["--no-clang-format"])
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    def assert_fault(self, path, text, message, **options):
        status, output = self.run_on({path: text}, **options)
        self.assertEqual(status, 1, output)
        self.assertIn(path + ":", output)
        self.assertIn(message, output)

    def assert_clean(self, path, text, **options):
        status, output = self.run_on({path: text}, **options)
        self.assertEqual(status, 0, output)

    def test_an_upward_include_fails(self):
        self.assert_fault("kernels/a.cc", '#include "engine/api/request.h"\n', "layer kernels must not include")
        self.assert_fault("engine/text/a.cc", '#include "engine/api/engine.h"\n', "layer engine/text must not include")
        self.assert_clean("engine/a.cc", '#include "kernels/backend.h"\n')
        self.assert_clean("engine/text/a.cc", '#include "engine/text/b.h"\n#include "kernels/backend.h"\n')

    def test_tests_without_a_namespace_of_their_own_fail(self):
        test = "TEST(Sums, Add) {}\n"
        self.assert_fault("tests/engine/sums_test.cc", "namespace beamline {\n" + test + "}\n",
                          "outside of a namespace beamline::sums_test")
        self.assert_clean("tests/engine/sums_test.cc", "namespace beamline::sums_test {\n" + test + "}\n")
        self.assert_clean("tests/engine/sums_test.cc", "namespace beamline::cli::sums_test {\n" + test + "}\n")
        self.assert_clean("tests/engine/sums_test.cc", "namespace beamline {\n" + test + "}\nint main() {}\n")

    def test_a_library_outside_its_folders_fails(self):
        self.assert_fault("engine/a.cc", "#include <grpcpp/grpcpp.h>\n", "may be included only below server")
        self.assert_fault("engine/a.cc", '#include "grpcpp/grpcpp.h"\n', "may be included only below server")
        self.assert_clean("server/a.cc", "#include <grpcpp/grpcpp.h>\n")

    def test_a_library_in_another_style_fails(self):
        self.assert_fault("engine/a.cc", "#include <fmt/format.h>\n", "fmt/format.h is included with quotes")
        self.assert_clean("engine/a.cc", '#include "fmt/format.h"\n')

    def test_a_cycle_of_layers_fails(self):
        status, output = self.run_on({}, layers="layer a: b\nlayer b: a\n")
        self.assertEqual(status, 1, output)
        self.assertIn("cycle: a -> b -> a", output)

    def test_an_unknown_layer_fails(self):
        self.assert_fault("tools/layers.txt", "layer a: nowhere\n", "which is no layer")

    def test_an_edge_that_nobody_uses_fails(self):
        files = {"engine/a.cc": "int x;\n", "kernels/a.cc": "int x;\n"}
        status, output = self.run_on(files)
        self.assertEqual(status, 1, output)
        self.assertIn("layer engine includes nothing of kernels", output)
        files["engine/b.h"] = '// b.\n#pragma once\n\n#include "kernels/a.h"\n'
        status, output = self.run_on(files)
        self.assertEqual(status, 0, output)

    def test_a_malformed_layer_table_fails(self):
        status, output = self.run_on({}, layers="a may include b\n")
        self.assertEqual(status, 1, output)
        self.assertIn("tools/layers.txt:1", output)

    def test_functions_of_libraries_are_the_guards(self):
        top = "// A file.\n"
        stand_in = top + 'extern "C" __attribute__((visibility("default"))) int recvmsg(int fd,\n    void* message) {\n  return 0;\n}\n'
        self.assert_fault("server/net/a.cc", stand_in, "recvmsg is defined as a C function outside of server/guard/")
        self.assert_fault("server/net/a.cc", stand_in, "server/net/a.cc:2:")
        self.assert_fault("server/net/a.cc", top + 'extern "C" {\nint SSL_read(void* ssl) { return 0; }\n}\n', "a block of extern")
        self.assert_fault("server/net/a.cc", top + "namespace grpc_core {\nvoid Work() {}\n}\n", "namespace grpc_core is gRPC's")
        for call in ("dlsym(RTLD_NEXT, name)", "dlvsym(handle, name, version)", 'dlopen("libgrpc.so", 1)', "dlmopen(0, name, 1)"):
            self.assert_fault("server/net/a.cc", f"{top}void* Find() {{ return {call}; }}\n", call.split("(")[0] + " outside of server/guard/")
        find = top + "void* Find() { return dlsym(RTLD_NEXT, name); }\n"
        for path in ("server/guard/a.cc", "kernels/cuda_loader.cc", "tests/a.cc"):
            self.assert_clean(path, find)
        self.assert_clean("server/guard/a.cc", stand_in)
        self.assert_clean("tests/a.cc", stand_in)
        self.assert_clean("server/net/a.cc", top + 'extern "C" int beamline_open(int version) {\n  return version;\n}\n'
                          'extern "C" void __tsan_read_range(void* begin, unsigned long bytes);\n// dlsym (of the guard)\n')

    def test_long_files_fail(self):
        self.assert_fault("engine/a.cc", "int x;\n" * 601, "601 lines, the limit is 600")
        self.assert_fault("scripts/a.sh", "true\n" * 401, "past 400 the top must say")
        self.assert_clean("scripts/a.sh", "true\n" * 400)
        self.assert_clean("engine/a.cc", "// Long because the table is one piece.\n" + "int x;\n" * 500)
        self.assert_fault("engine/a.cc", "// Long because the table is one piece.\n" + "int x;\n" * 600, "the limit is 600")

    def test_long_functions_fail(self):
        def function(lines, head="void F(int a)"):
            return head + " {\n" + "  G();\n" * (lines - 2) + "}\n"

        self.assert_clean("engine/a.cc", function(70))
        self.assert_fault("engine/a.cc", function(71), "F has 71 lines, the limit is 70")
        inside = "namespace beamline {\nclass C {\n" + function(71, "  int Method() const") + "};\n}  // namespace beamline\n"
        self.assert_fault("engine/a.cc", inside, "engine/a.cc:3: Method has 71 lines")
        self.assert_clean("engine/a.cc", "namespace beamline {\n" + function(40) + function(40) + "}  // namespace beamline\n")

    def test_long_functions_are_found_behind_literals_and_lambdas(self):
        body = "  auto f = [&](int x) { return x; };\n" + '  G("} // {", \'{\');\n' * 70
        self.assert_fault("engine/a.cc", "void F() {\n" + body + "}\n", "F has 73 lines")
        raw = 'const char* k = R"({{{)";\n/* { */ // {\n'
        self.assert_fault("engine/a.cc", raw + "void F() {\n" + "  G();\n" * 80 + "}\n", "F has 82 lines")

    def test_kernels_may_be_longer(self):
        head = "__global__ void K(float* x) {\n"
        self.assert_clean("kernels/a.cu", head + "  x[0] += 1;\n" * 118 + "}\n")
        self.assert_fault("kernels/a.cu", head + "  x[0] += 1;\n" * 119 + "}\n", "K has 121 lines, the limit is 120")

    def test_unchecked_kernel_launches_fail(self):
        launch = "void F() {\n  K<<<1, 32>>>(x);\n"
        self.assert_fault("kernels/a.cu", launch + "}\n", "kernel launch without a check")
        self.assert_clean("kernels/a.cu", launch + "  CheckLaunch();\n}\n")

    def test_headers_need_pragma_once_and_a_comment(self):
        self.assert_clean("engine/a.h", "// What it is for.\n#pragma once\n")
        self.assert_fault("engine/a.h", "// What it is for.\nint x;\n", "header without #pragma once")
        self.assert_fault("engine/a.h", "#pragma once\n", "header without a comment at its top")

    def test_a_type_that_two_headers_define_fails(self):
        def header(name, scope="beamline"):
            return f"// Sums.\n#pragma once\nnamespace {scope} {{\nint Add(int a) {{\n  return a;\n}}\n{name}\n}}  // namespace {scope}\n"

        for text in ("struct Sum {\n  int a = 0;\n};", "class Sum final : public Base {\n};", "enum class Sum { kA };",
                     "enum class Sum : int { kA };"):
            status, output = self.run_on({"engine/a.h": header("class Sum {\n};"), "engine/b.h": header(text)})
            self.assertEqual(status, 1, output)
            self.assertIn("engine/b.h:7: beamline::Sum is defined in engine/a.h:7 too", output)
        for text, scope in (("struct Sum;", "beamline"), ("struct Sum {};", "beamline::other"), ("struct Sums {};", "beamline"),
                            ("// struct Sum {", "beamline"), ("struct Total::Sum {\n};", "beamline")):
            status, output = self.run_on({"engine/a.h": header("class Sum {\n};"), "engine/b.h": header(text, scope)})
            self.assertEqual(status, 0, output)

    def test_include_order(self):
        self.assert_clean("engine/a.cc", '#include "engine/a.h"\n\n#include <string>\n\n#include "engine/b.h"\n')
        self.assert_clean("engine/a.cc", '#include "engine/a.h"\n\n#include "b/a.h"\n#include "engine/b.h"\n')
        self.assert_fault("engine/a.cc", '#include "engine/b.h"\n#include <string>\n', "should stand before")
        self.assert_fault("engine/a.cc", "#include <vector>\n#include <string>\n", "<string> should stand before <vector>")

    def test_left_over_words_fail(self):
        for word in ("TO" + "DO", "FIX" + "ME", "XX" + "X", "place" + "holder", "dum" + "my"):
            self.assert_fault("engine/a.cc", f"// {word}: more\n", "left-over word")
            self.assert_fault("docs/a.md", f"{word}\n", "left-over word")

    def test_white_space(self):
        self.assert_fault("engine/a.cc", "\tint x;\n", "tab")
        self.assert_fault("docs/a.md", "words \n", "trailing space")
        self.assert_fault("engine/a.cc", "int x;", "no newline at the end")
        self.assert_fault("engine/a.cc", "int x;\r\n", "trailing space")

    def test_proto_items_without_a_comment_fail(self):
        def message(*lines):
            return 'syntax = "proto3";\noption optimize_for = SPEED;\n' + "\n".join(lines) + "\n"

        for item in ("  string name = 1;", "  optional int32 name = 2;", "  repeated a.B name = 3;", "  map<int32, float> name = 4;",
                     "  NAME = 5;", "  NAME = -1;", "  rpc Name(A) returns (B);", "  int32 name = 6 [deprecated = true];",
                     "    google.rpc.Status name = 12;"):
            name = "NAME" if "NAME" in item else "Name" if "Name" in item else "name"
            self.assert_fault("proto/a.proto", message("message M {", item, "}"), f"{name} without a comment above it")
            self.assert_fault("proto/a.proto", message("message M {", "  // Another's.", "  int32 x = 9;", item, "}"),
                              f"proto/a.proto:6: {name} without a comment above it")
            self.assert_fault("proto/a.proto", message("message M {", "  // Far.", "", item, "}"), "without a comment above it")
            self.assert_clean("proto/a.proto", message("message M {", "  // What it is.", item, "}"))
        self.assert_clean("proto/a.proto", message("message M {", "  reserved 4;", "  oneof kind {", "  }", "}"))

    def test_data_and_generated_files_are_excepted(self):
        self.assert_clean("tests/golden/a.json", "{}\t\n" * 1000)
        self.assert_clean("build/a.cc", "\t\n")

    @unittest.skipUnless(has_clang_format(), "needs clang-format 14")
    def test_format(self):
        self.assert_clean("engine/a.cc", "int F(int a) { return a; }\n", clang_format=True)
        self.assert_fault("engine/a.cc", "int  F( int a ) {return a;}\n", "not as clang-format writes it", clang_format=True)


if __name__ == "__main__":
    unittest.main()
