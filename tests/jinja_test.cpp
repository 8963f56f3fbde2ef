// The template engine against the reference's goldens, its limits, and the origin of characters.
#include "text/jinja.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "golden_file.h"
#include "test_data.h"

namespace llm {
namespace {

Value json(std::string_view text) { return parse_json_value(text, "context"); }

Text render(const std::string& source, const Value& context) {
  return jinja::Template::parse(source, "t").render(context);
}

std::string render(const std::string& source, std::string_view context = "{}") {
  return render(source, json(context)).str();
}

/// The message of the error that rendering ends with; empty if it doesn't.
std::string refusal(const std::string& source) {
  try {
    render(source);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::kRefused);
    return error.what();
  }
  return "";
}

std::string repeated(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

/// One letter per byte: t(emplate), a(ssistant), c(ontent).
std::string origins(const Text& text) {
  std::string letters;
  for (size_t i = 0; i < text.size(); ++i) {
    letters += "tac"[static_cast<int>(text.origin_at(i))];
  }
  return letters;
}

std::string content_origins(const std::string& expression) {
  Dict context;
  context.set(Value("x"), with_origin(json("\"abc\""), Origin::kContent));
  context.set(Value("d"), with_origin(json("{\"k\": [\"v\"]}"), Origin::kContent));
  return origins(render("{{ " + expression + " }}", Value(std::move(context))));
}

/// Each line: a template, a context, and the text or the error of the reference.
void check_templates(const std::filesystem::path& path) {
  GoldenFile golden(path.filename().string());
  std::ifstream file(path);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    const Value test = json(line);
    const std::string& source = test.find("template")->as_string();
    const Value* expected_error = test.find("error");
    std::string got;
    bool raised = false;
    try {
      got = render(source, *test.find("context")).str();
    } catch (const Error& error) {
      raised = true;
      got = error.what();
    }
    const bool own_message = source.find("raise_exception('") == std::string::npos ||
                             expected_error == nullptr ||
                             got.find(expected_error->as_string()) != std::string::npos;
    const bool ok = expected_error != nullptr ? raised && own_message
                                              : !raised && got == test.find("expect")->as_string();
    golden.line(++number, ok, source + " gave " + got);
  }
  CHECK(number > 0);
}

}  // namespace

TEST_CASE("jinja.jsonl") {
  LLM_SKIP_WITHOUT_DATA("jinja.jsonl");
  check_templates(shared_data() / "goldens" / "jinja.jsonl");
}

TEST_CASE("templates_found.jsonl: what the comparison with the reference found") {
  check_templates("tests/goldens/templates_found.jsonl");
}

TEST_CASE("errors name line and column") {
  CHECK(refusal("a\n{{ 1 }}\né {{ x.y }}").find("t: line 3, column 7: ") == 0);
  CHECK(refusal("{% if %}").find("t: line 1, column 7: ") == 0);
  CHECK(refusal("{{ raise_exception('Roles must alternate!') }}").find("Roles must alternate!") !=
        std::string::npos);
  CHECK(refusal("{{ x.y }}").find("'x' is undefined") != std::string::npos);
  CHECK(refusal("{{ {}.a.b }}").find("'dict object' has no attribute 'a'") != std::string::npos);
}

TEST_CASE("what isn't a template is refused") {
  for (const char* source : {"{{",
                             "{{ }}",
                             "{{ 1",
                             "{% for %}",
                             "{% endif %}",
                             "{% if 1 %}{% endfor %}",
                             "{# ",
                             "{{ ( }}",
                             "{{ ] }}",
                             "{{ 'a }}",
                             "{{ $ }}",
                             "{% raw %}",
                             "{% set 1 = 2 %}",
                             "{% break %}",
                             "{% macro m(a=1, b) %}{% endmacro %}",
                             "{% nosuch %}",
                             "{{ a..b }}",
                             "{{ f(a=1, 2) }}",
                             "{% include 'x' %}",
                             "{{ '\\ud800' }}",
                             "{{ '\\x4' }}",
                             "\xff",
                             "{% call 3 %}{% endcall %}"}) {
    CAPTURE(source);
    CHECK(refusal(source) != "");
  }
}

TEST_CASE("a hostile template ends with an error") {
  const std::string grow = "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99999) %}";
  for (const std::string& source : {
           std::string(
               "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
           grow + "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
           grow + "{% set ns.s = [ns.s] %}{% endfor %}",
           grow + "{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
           grow + "{% for l in [ns.s] %}{% set ns.s = loop %}{% endfor %}{% endfor %}",
           grow + "{% for l in [ns.s] %}{% set ns.s = loop.cycle %}{% endfor %}{% endfor %}",
           grow + "{% set ns.s = [ns.s].count %}{% endfor %}",
           std::string("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
           std::string(
               "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}"),
           std::string("{% for x in [[]] recursive %}{{ loop([[]]) }}{% endfor %}"),
           std::string("{{ range(100000000) }}"),
           std::string("{{ 'abc' * 1000000000 }}"),
           std::string("{{ [0] * 1000000000 }}"),
           std::string("{{ 'a'.center(1000000000000) }}"),
           std::string("{{ '%1000000000d' % 1 }}{{ '{:1000000000}'.format(1) }}"),
           std::string("{{ 'a' | indent(10000000000) }}"),
           std::string("{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}"),
           std::string("{{ [[]] | tojson(indent=1000000000) }}"),
           std::string("{{ 9223372036854775807 + 1 }}"),
           std::string("{{ 2 ** 10000000 }}"),
           "{{ " + repeated("(", 100000) + " }}",
           "{{ " + repeated("[", 100000) + repeated("]", 100000) + " }}",
           "{{ 1" + repeated("+1", 100000) + " }}",
           "{{ x" + repeated("|upper", 100000) + " }}",
           "{{ x" + repeated(".a", 100000) + " }}",
           "{{ " + repeated("not ", 100000) + "1 }}",
           "{{ " + repeated("-", 100000) + "1 }}",
           repeated("{% if 1 %}", 100000),
       }) {
    CAPTURE(source.substr(0, 100));
    CHECK(refusal(source) != "");
  }
}

TEST_CASE("values that refer to themselves are let go") {
  CHECK(render("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me is defined }}") ==
        "True");
  CHECK(render("{% macro m() %}{{ 1 }}{% endmacro %}{% set f = m %}{{ f() }}") == "1");
}

TEST_CASE("long chains within the limits work") {
  CHECK(render("{{ 0" + repeated(" + 1", 300) + " }}") == "300");
  CHECK(render("{% macro r(n) %}{% if n %}{{ r(n - 1) }}{% else %}end{% endif %}{% endmacro %}"
               "{{ r(60) }}") == "end");
}

TEST_CASE("characters keep their origin through every operation") {
  CHECK(content_origins("'<' + x + '>'") == "tccct");
  CHECK(content_origins("'<' ~ x") == "tccc");
  CHECK(content_origins("x[1:]") == "cc");
  CHECK(content_origins("x[::-1]") == "ccc");
  CHECK(content_origins("x[-1]") == "c");
  CHECK(content_origins("(' ' + x + ' ').strip()") == "ccc");
  CHECK(content_origins("x | upper") == "ccc");
  CHECK(content_origins("x.title()") == "ccc");
  CHECK(content_origins("x.split('b')[0] + '-'") == "ct");
  CHECK(content_origins("x.replace('b', '__')") == "cttc");
  CHECK(content_origins("'a-b'.replace('-', x)") == "tccct");
  CHECK(content_origins("x * 2") == "cccccc");
  CHECK(content_origins("[x, 'y'] | join(', ')") == "cccttt");
  CHECK(content_origins("'%s!' % x") == "ccct");
  CHECK(content_origins("'{}!'.format(x)") == "ccct");
  CHECK(content_origins("x | tojson") == "tccct");
  CHECK(content_origins("x | list | first") == "c");
  CHECK(content_origins("x.center(5)") == "tccct");
  CHECK(content_origins("x | indent(2, true)") == "ttccc");
  CHECK(content_origins("(x + '<') | e") == "ccctttt");
  CHECK(content_origins("d") == "ctctccctctcc");
  CHECK(content_origins("d | tojson") == "ctctccctctcc");
  CHECK(content_origins("d.k") == "ctctc");
}

TEST_CASE("origins survive set blocks, macros, filters and loops") {
  Dict names;
  names.set(Value("x"), with_origin(json("\"ab\""), Origin::kAssistant));
  const Value context(std::move(names));
  CHECK(origins(render("{% set y %}<{{ x }}>{% endset %}{{ y }}", context)) == "taat");
  CHECK(origins(render("{% macro m(v) %}<{{ v }}{% endmacro %}{{ m(x) }}", context)) == "taa");
  CHECK(origins(render("{% filter upper %}<{{ x }}{% endfilter %}", context)) == "taa");
  CHECK(origins(render("{% for c in x %}{{ c }},{% endfor %}", context)) == "atat");
  CHECK(origins(render("{% generation %}{{ x }}.{% endgeneration %}", context)) == "aat");
}

}  // namespace llm
