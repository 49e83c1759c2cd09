// Templates that would take all memory, all time or all of the stack: each ends with an error,
// soon.
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/jinja/template.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamline::hostile_template_test {
namespace {

using jinja::RenderLimits;
using jinja::Template;
using ::testing::HasSubstr;

std::string Repeat(std::string_view text, int count) {
  std::string made;
  for (int i = 0; i < count; ++i) made += text;
  return made;
}

// The fault of a template, which must come within seconds, under sanitizers too.
std::string HostileFault(const std::string& source, const RenderLimits& limits = {}) {
  const auto start = std::chrono::steady_clock::now();
  const auto made = Template::Parse(source);
  const auto text = made.ok() ? made->Render({}, limits) : made.status();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30))
      << source.substr(0, 80);
  return text.ok() ? absl::StrCat("rendered ", text->size(), " bytes")
                   : std::string(text.status().message());
}

TEST(HostileTemplateTest, LoopsEnd) {
  EXPECT_THAT(HostileFault("{{ range(10**9)|list }}"), HasSubstr("Range too big"));
  EXPECT_THAT(HostileFault("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}"
                           "{% endfor %}"),
              HasSubstr("more than 5000000 steps"));
  EXPECT_THAT(HostileFault("{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}"),
              HasSubstr("writes more than 16777216 bytes"));
  EXPECT_THAT(
      HostileFault("{{ range(99999)|map('string')|map('list')|map('join')|list|sort|join|list|"
                   "map('upper')|list|unique|list|length }}" +
                   Repeat("{{ range(99999)|sum }}", 100)),
      HasSubstr("more than"));
}

TEST(HostileTemplateTest, TextsStayInMemory) {
  EXPECT_THAT(HostileFault("{{ 'ab' * 10**9 }}"), HasSubstr("more than 67108864 bytes"));
  EXPECT_THAT(HostileFault("{% set n = namespace(s='xx') %}{% for i in range(64) %}"
                           "{% set n.s = n.s + n.s %}{% endfor %}"),
              HasSubstr("more than 67108864 bytes"));
  EXPECT_THAT(HostileFault("{% set n = namespace(s='xx') %}{% for i in range(64) %}"
                           "{% set n.s = n.s ~ n.s %}{% endfor %}"),
              HasSubstr("more than"));
  EXPECT_THAT(HostileFault("{% set n = namespace(s=[1]) %}{% for i in range(64) %}"
                           "{% set n.s = n.s + n.s %}{% endfor %}"),
              HasSubstr("more than 67108864 bytes"));
  EXPECT_THAT(HostileFault("{% set s = 'x' * 10**6 %}{{ s|replace('x', s) }}"), HasSubstr("bytes"));
  EXPECT_THAT(HostileFault("{% set s = 'x' * 10**6 %}{{ s|list|join(s) }}"),
              HasSubstr("more than"));
  EXPECT_THAT(HostileFault("{% set s = '\\n' * 10**6 %}{{ s|indent(10000, blank=true) }}"),
              HasSubstr("more than"));
  EXPECT_THAT(HostileFault("{{ 'x'.center(10**12) }}"), HasSubstr("too long"));
  EXPECT_THAT(HostileFault("{{ 'x'.zfill(10**9) }}"), HasSubstr("bytes"));
  EXPECT_THAT(HostileFault("{{ [1]|batch(10**12, 'x')|list }}"), HasSubstr("more than"));
  EXPECT_THAT(HostileFault("{{ '%999999999d' % 1 }}"),
              HasSubstr("a format's width is above 10000"));
  EXPECT_THAT(HostileFault("{{ [[1] * 1000] * 1000 * 100 }}"), HasSubstr("more than"));
  EXPECT_THAT(HostileFault(
                  "{% set x %}{% for i in range(90000) %}{{ 'x' * 1000 }}{% endfor %}{% endset %}"),
              HasSubstr("writes more than"));
  EXPECT_THAT(HostileFault("{% set n = namespace(s=[]) %}{% for i in range(99999) %}"
                           "{% set n.s = n.s + [namespace(a=n)] %}{% endfor %}"),
              HasSubstr("more than"));
  EXPECT_THAT(HostileFault("{% for i in range(99999) %}{% for j in range(99999) %}"
                           "{% macro m() %}{% endmacro %}{% endfor %}{% endfor %}"),
              HasSubstr("more than"));
}

TEST(HostileTemplateTest, NothingIsNestedWithoutEnd) {
  EXPECT_THAT(HostileFault("{{ " + Repeat("(", 100000) + "1" + Repeat(")", 100000) + " }}"),
              HasSubstr("nested deeper than 100 levels"));
  EXPECT_THAT(HostileFault("{{ " + Repeat("[", 100000) + Repeat("]", 100000) + " }}"),
              HasSubstr("nested deeper"));
  EXPECT_THAT(HostileFault("{{ " + Repeat("not ", 100000) + "1 }}"), HasSubstr("nested deeper"));
  EXPECT_THAT(HostileFault("{{ " + Repeat("- ", 100000) + "1 }}"), HasSubstr("nested deeper"));
  EXPECT_THAT(HostileFault("{{ 1" + Repeat(" + 1", 100000) + " }}"), HasSubstr("nested deeper"));
  EXPECT_THAT(HostileFault("{{ a" + Repeat(".b", 100000) + " }}"), HasSubstr("nested deeper"));
  EXPECT_THAT(HostileFault("{{ a" + Repeat("|trim", 100000) + " }}"), HasSubstr("nested deeper"));
  EXPECT_THAT(HostileFault("{{ a" + Repeat(" if a", 100000) + " }}"), HasSubstr("nested deeper"));
  EXPECT_THAT(HostileFault(Repeat("{% if 1 %}", 50000)), HasSubstr("nested deeper"));
  EXPECT_EQ(HostileFault("{{ 'a'" + Repeat(" ~ 'b'", 10000) + " }}"), "rendered 10001 bytes");
  EXPECT_THAT(HostileFault("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
              HasSubstr("calls itself too deeply"));
  EXPECT_THAT(HostileFault("{% macro f(x) %}{{ caller() }}{% call f(1) %}x{% endcall %}"
                           "{% endmacro %}{% call f(2) %}{% endcall %}"),
              HasSubstr("calls itself too deeply"));
  EXPECT_THAT(HostileFault("{% set n = namespace(s=[]) %}{% for i in range(99999) %}"
                           "{% set n.s = [n.s] %}{% endfor %}"),
              HasSubstr("nested deeper than 200 levels"));
  EXPECT_THAT(HostileFault("{% set n = namespace(s={}) %}{% for i in range(99999) %}"
                           "{% set n.s = {'a': n.s} %}{% endfor %}"),
              HasSubstr("nested deeper than 200 levels"));
  EXPECT_THAT(HostileFault("{% set n = namespace(s='') %}{% for i in range(99999) %}"
                           "{% set n.s = [n.s].copy %}{% endfor %}"),
              HasSubstr("nested deeper than 200 levels"));
  EXPECT_THAT(HostileFault("{% set n = namespace(s=[1]) %}{% for i in range(99999) %}"
                           "{% set n.s = [n.s]|map('first') %}{% endfor %}{{ n.s|list }}"),
              HasSubstr("rendered"));
}

// Cycles of namespaces, scopes and macros are given back: the sanitizers look for what is not.
TEST(HostileTemplateTest, CyclesAreGivenBack) {
  EXPECT_EQ(
      HostileFault("{% set n = namespace() %}{% set n.n = n %}{% set n.l = [n] %}"
                   "{% macro m() %}{{ m is defined }}{% endmacro %}{% set n.m = m %}{{ n.m() }}"
                   "{% for i in [1] %}{% set n.loop = loop %}{% macro k() %}{{ k }}{% endmacro %}"
                   "{% set n.k = k %}{% endfor %}"),
      "rendered 4 bytes");
}

TEST(HostileTemplateTest, SourcesAreBounded) {
  EXPECT_EQ(HostileFault(std::string(Template::kMostBytes + 1, 'x')),
            "it has 1048577 bytes; accepted: at most 1048576");
  EXPECT_EQ(HostileFault(std::string(Template::kMostBytes, 'x')), "rendered 1048576 bytes");
  EXPECT_THAT(HostileFault(Repeat("{{ x }}", 100000)), HasSubstr("rendered 0 bytes"));
}

TEST(HostileTemplateTest, LimitsAreTheCallers) {
  EXPECT_EQ(HostileFault("{% for i in range(20) %}{{ i }}{% endfor %}", {.steps = 50}),
            "line 1: the template takes more than 50 steps");
  EXPECT_EQ(HostileFault("{{ 'x' * 100 }}", {.output_bytes = 99}),
            "line 1: the template writes more than 99 bytes");
  EXPECT_EQ(HostileFault("{{ 'x' * 100 }}", {.memory_bytes = 99}),
            "line 1: the template's values take more than 99 bytes");
}

}  // namespace
}  // namespace beamline::hostile_template_test
