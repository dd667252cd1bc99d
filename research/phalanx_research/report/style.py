"""The style of the page, light and dark, with line colours that colour-blind people can
distinguish.
"""

STYLE = (
    """
:root{--bg:#fff;--fg:#1b1f24;--dim:#5b6470;--line:#dfe3e8;--card:#f7f8fa;
--c0:#0067a5;--c1:#d1560f;--c2:#00806a;--c3:#b3368b;--c4:#8a6d00;--c5:#5b5bd6;--c6:#a02c2c;
--c7:#5a6570;--h0:#e4e8ed;--h1:#fde2a4;--h2:#f5b65c;--h3:#e0842f;--h4:#b5541b;--h5:#15557d}
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e8ebef;--dim:#9aa4b0;--line:#2f353d;
--card:#1b1f25;--c0:#5db4f0;--c1:#ff9450;--c2:#3fd0b0;--c3:#f082cc;--c4:#dcbc3c;--c5:#a3a3ff;
--c6:#f07f7f;--c7:#aab4bf;--h0:#2b313a;--h1:#6b5320;--h2:#a1762a;--h3:#d49a3c;--h4:#f4c873;
--h5:#4aa3dd}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1180px;padding:28px 24px 60px;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:25px;margin:0 0 2px}h2{font-size:17px;margin:0 0 2px}
p{margin:0 0 10px;color:var(--dim)}
section{margin-top:30px}.note{font-size:13px}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:18px;
margin-top:20px}
.plot{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px 14px 8px}
.plot p{font-size:13px;margin-bottom:6px}svg{display:block;max-width:100%;height:auto}
.plot svg{width:100%}.grid{stroke:var(--line);stroke-width:1}.tick{fill:var(--dim);font-size:11.5px}
.axis{fill:var(--fg);font-size:12.5px}.line{fill:none;stroke-width:2;stroke-linejoin:round}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:14px 0 0;padding:0;list-style:none}
.legend i{display:inline-block;width:22px;height:3px;margin-right:7px;vertical-align:middle}
.wide{overflow-x:auto}table{border-collapse:collapse;min-width:50%;font-variant-numeric:tabular-nums}
th,td{padding:4px 14px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--dim);font-weight:500;font-size:13px;vertical-align:bottom;white-space:normal}
th:first-child,td:first-child{text-align:left}td.best{font-weight:700}
.heat{margin:12px 0 0}.heat figcaption{font-size:13px;color:var(--dim);margin-bottom:3px}
.heat b{color:var(--fg);margin-right:6px}.scale{display:flex;flex-wrap:wrap;gap:4px 16px;
font-size:13px;color:var(--dim)}.scale i{display:inline-block;width:13px;height:13px;
margin-right:6px;vertical-align:-2px}
details{margin-top:14px;border-top:1px solid var(--line);padding-top:10px}summary{cursor:pointer;
font-weight:600}
@media(max-width:640px){body{padding:18px 14px 40px}th,td{padding:4px 6px;font-size:13px}
td:first-child{white-space:normal}table{min-width:100%}}
"""
    + "".join(f".c{n}{{stroke:var(--c{n})}}.b{n}{{background:var(--c{n})}}" for n in range(8))
    + "".join(f".h{n}{{fill:var(--h{n})}}.k{n}{{background:var(--h{n})}}" for n in range(6))
)
COLOURS = 8
"""The number of line colours. Further runs repeat the colours."""
