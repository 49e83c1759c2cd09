#include "loadtest/report/page_frame.h"

#include "fmt/format.h"
#include "loadtest/report/chart.h"
#include "loadtest/report/markup.h"

namespace beamline::loadtest {
namespace {

constexpr std::string_view kStyle =
    R"(:root{color-scheme:light dark;--page:#f5f6f8;--card:#fff;--ink:#1b2026;--soft:#59636e;--rule:#dfe3e8;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--page:#0f1216;--card:#181c22;--ink:#e8ebef;--soft:#a0aab5;--rule:#2c323b;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.45 system-ui,sans-serif}
main{max-width:1240px;margin:0 auto;padding:24px 20px 40px}
h1{font-size:26px;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:18px;margin:30px 0 10px}
h3{font-size:15px;margin:0 0 8px;overflow-wrap:anywhere}
p{margin:0 0 8px}
.soft{color:var(--soft);overflow-wrap:anywhere}
.bad{color:var(--bad)}
.card,figure{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:14px 16px}
.tables{margin-top:14px}.tables>:last-child:nth-child(odd){grid-column:1/-1}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin-top:18px}
.tile b{display:block;font-size:26px;line-height:1.2;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:5px 8px;text-align:right;border-bottom:1px solid var(--rule);vertical-align:top}
tr:last-child>*{border-bottom:0}
thead th{color:var(--soft);font-weight:500;font-size:13px;vertical-align:bottom}
th:first-child,.text{text-align:left}
.code{white-space:nowrap}
tbody th{font-weight:500;min-width:84px;overflow-wrap:anywhere}
td.text{overflow-wrap:anywhere;min-width:170px}
td.text p{margin:0 0 4px}
dl{display:grid;grid-template-columns:minmax(90px,max-content) 1fr;gap:6px 16px;margin:0}
dt{color:var(--soft)}
dd{margin:0;min-width:0;overflow-wrap:anywhere}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.45 ui-monospace,monospace}
@media (max-width:520px){main{padding:16px 10px 30px}.card,figure{padding:10px}th,td{padding:4px 3px;font-size:12px}thead th{font-size:12px}tbody th{min-width:70px}.tiles{grid-template-columns:1fr 1fr}.tiles>:last-child:nth-child(odd){grid-column:1/-1}h1{font-size:21px}.tile b{font-size:21px}dl{grid-template-columns:1fr}dt{margin-top:4px}dd{margin-bottom:4px}}
)";

}  // namespace

std::string FramePage(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\"/>\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n<main>\n{}</main>\n</body>\n"
      "</html>\n",
      Escape(title), kStyle, ChartStyle(), body);
}

}  // namespace beamline::loadtest
