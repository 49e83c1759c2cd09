// Templates that would take all memory, all time or all of the stack: each ends with an error,
// soon.
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/stop_check.h"
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

// Whatever reads a long text counts what it reads, so that a hundred times it is too much.
TEST(HostileTemplateTest, EverythingThatIsReadCounts) {
  const std::string expressions[] = {"'b' in s",
                                     "s == t",
                                     "s < t",
                                     "s in {s: 1}",
                                     "{s: 1}",
                                     "dict([[s, 1]])",
                                     "d[s]",
                                     "d.get(s)",
                                     "[s, s]|unique|list",
                                     "namespace(**{s: 1})",
                                     "m(**{s: 1})",
                                     "s.startswith(t)",
                                     "s.endswith((t, s))",
                                     "s.removeprefix(t)",
                                     "s.removesuffix(t)",
                                     "s.find('b')",
                                     "s.rfind('b')",
                                     "s.count('b')",
                                     "s.split('b')",
                                     "s.rsplit('b')",
                                     "s.partition('b')",
                                     "s.rpartition('b')",
                                     "s.replace('b', 'c')",
                                     "s|replace('b', 'c')",
                                     "s.strip('b')",
                                     "'x'.strip(s)",
                                     "s|trim",
                                     "s.splitlines()",
                                     "s.title()",
                                     "s|title",
                                     "s.swapcase()",
                                     "s|upper",
                                     "s|int",
                                     "s|float",
                                     "s|wordcount",
                                     "s|indent",
                                     "s|reverse",
                                     "s|escape",
                                     "s|tojson",
                                     "[s]|sort",
                                     "[s, s]|min",
                                     "[s]|join(',')",
                                     "s ~ 'b'",
                                     "s + 'b'",
                                     "s * 2",
                                     "s[1:]",
                                     "s[::2]",
                                     "s.isalpha()",
                                     "s is lower",
                                     "'%s' % s",
                                     "'%.1s' % s",
                                     "'{:.1s}'.format(s)",
                                     "'{}'.format(s)",
                                     "[[1]]|map(attribute=s)|list",
                                     "s.center(10**6 + 9)"};
  for (const std::string& expression : expressions) {
    EXPECT_THAT(HostileFault("{% set s = 'a' * 10**6 %}{% set t = s + 'a' %}{% set d = {s: 1} %}"
                             "{% set x = [1] %}{% macro m() %}{{ kwargs|length }}{% endmacro %}"
                             "{% for i in range(100) %}{% if " +
                                 expression + " %}{% endif %}{% endfor %}",
                             {.steps = 500'000}),
                HasSubstr("more than 500000 steps"))
        << expression;
  }
}

// Variables, members and arguments that are looked through count as well.
TEST(HostileTemplateTest, NamesThatAreLookedThroughCount) {
  std::string variables, members = "{% set n = namespace() %}", parameters, arguments;
  for (int i = 0; i < 20000; ++i) {
    variables += absl::StrCat("{% set v", i, "=1 %}");
    members += absl::StrCat("{% set n.v", i, "=1 %}");
  }
  for (int i = 0; i < 2000; ++i) {
    parameters += absl::StrCat(i == 0 ? "" : ",", "p", i, "=1");
    arguments += absl::StrCat(i == 0 ? "" : ",", "p", i, "=2");
  }
  const std::string loop = "{% for i in range(90000) %}", end = "{% endfor %}";
  EXPECT_THAT(HostileFault(variables + loop + "{{ v19999 }}" + end), HasSubstr("steps"));
  EXPECT_THAT(HostileFault(members + loop + "{{ n.v19999 }}" + end), HasSubstr("steps"));
  EXPECT_THAT(HostileFault("{% macro m(" + parameters + ") %}{% endmacro %}" + loop + "{{ m(" +
                           arguments + ") }}" + end),
              HasSubstr("steps"));
}

// Where a search that is not linear reads the product of both sizes.
TEST(HostileTemplateTest, SearchIsLinear) {
  const std::string texts =
      "{% set s = 'a' * 10**6 %}{% set w = 'a' * (10**6 // 2) %}{% set b = w + 'b' %}"
      "{% set c = 'b' + w %}{% set d = 'a' * 200 + 'b' %}";
  for (const char* expression :
       {"b in s", "c in s", "s.find(b)", "s.find(c)", "s.rfind(b)", "s.rfind(c)", "s.count(b)",
        "s.split(b)|length", "s.rsplit(c)|length", "s.partition(b)|length",
        "s.rpartition(c)|length", "s.replace(b, '')|length", "(s|replace(c, ''))|length", "d in s",
        "s.count(d)", "('a' * 10**5).rsplit('a')|length", "s.strip(w)|length",
        "('x' * 10**5).strip(w)|length"}) {
    EXPECT_THAT(HostileFault(texts + "{{ " + expression + " }}"), HasSubstr("rendered"))
        << expression;
  }
}

TEST(HostileTemplateTest, SearchFindsWhatThereIs) {
  const auto text = Template::Parse(
      "{% set s = 'abababa' %}{{ [s.find('aba'), s.rfind('aba'), s.rfind('bab'), s.rfind('x'), "
      "s.find(''), s.rfind(''), s.count('aba'), s.count(''), s.find('aba', 1), s.rfind('ab', 0, "
      "4)] "
      "}}{{ s.rsplit('ba') }}{{ s.rsplit('aba', 1) }}{{ s.split('aba') }}{{ s.rpartition('aba') }}"
      "{{ 'aab'.rfind('aab') }}{{ '\u00e9a\u00e9'.strip('\u00e9') }}{{ 'xay'.strip('yx') }}");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text->Render({}),
            "[0, 4, 3, -1, 0, 7, 2, 8, 2, 2]['a', '', '', '']['abab', '']['', 'b', '']"
            "('abab', 'aba', '')0aa");
}

// A rendering asks now and then whether it is to go on.
TEST(HostileTemplateTest, IsStoppedFromOutside) {
  const auto made = Template::Parse(
      "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}");
  ASSERT_TRUE(made.ok());
  int asked = 0;
  const auto ask = [&asked] {
    return ++asked < 10 ? absl::OkStatus() : absl::DeadlineExceededError("too late");
  };
  {
    const StopWhen stop(ask);
    EXPECT_EQ(made->Render({}).status(), absl::DeadlineExceededError("too late"));
  }
  EXPECT_EQ(asked, 10);
  EXPECT_THAT(std::string(made->Render({}).status().message()), HasSubstr("steps"));
  EXPECT_EQ(asked, 10);  // the check ended with its block
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
