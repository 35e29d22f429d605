// Theme toggle, the model picker, and charts that read out their data tables by pointer, touch and keys.
"use strict";

function setUpTheme() {
  const button = document.querySelector("[data-theme-toggle]");
  const next = { auto: "light", light: "dark", dark: "auto" };
  const show = (theme) => { button.textContent = `Theme: ${theme}`; };
  let theme = document.documentElement.dataset.theme ?? "auto";
  show(theme);
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = next[theme];
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      if (theme === "auto") localStorage.removeItem("theme");
      else localStorage.setItem("theme", theme);
    } catch {
      // Not kept, but in force on this page.
    }
    show(theme);
  });
}

function setUpPicker() {
  for (const select of document.querySelectorAll("select[data-submit]")) {
    select.form.classList.add("scripted");
    select.addEventListener("change", () => select.form.requestSubmit());
  }
}

const NONE = "–";
const SVG = "http://www.w3.org/2000/svg";

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// The lines of a tip: a head and [label, value, key] for each column of a row.
function readRow(table, step, withShares) {
  const heads = [...table.tHead.rows[0].cells];
  const cells = [...table.tBodies[0].rows[step].cells];
  const total = cells.find((_, i) => heads[i].dataset.key === "requests");
  const lines = [];
  heads.forEach((head, i) => {
    if (i === 0) return;
    let value = cells[i].textContent;
    if (head.dataset.key === "changed" && value === NONE) return;
    if (withShares && cells[i].dataset.v && Number(total.dataset.v) > 0 && cells[i] !== total) {
      value += `  ${((100 * Number(cells[i].dataset.v)) / Number(total.dataset.v)).toFixed(1)} %`;
    }
    lines.push([head.textContent, value, head.dataset.key]);
  });
  const unit = heads[0].classList.contains("time") ? " UTC" : ` ${heads[0].textContent}`;
  return { head: `${cells[0].textContent}${unit}`, lines };
}

function setUpChart(figure) {
  const table = document.getElementById(figure.dataset.table);
  const area = figure.querySelector(".area");
  const svg = area.querySelector("svg");
  const steps = Number(figure.dataset.steps);
  const marker = document.createElementNS(SVG, "rect");
  marker.setAttribute("class", "marker");
  marker.setAttribute("width", "1");
  marker.setAttribute("height", "100");
  const tip = element("div", "tip");
  tip.hidden = true;
  const spoken = element("div", "hidden");
  spoken.setAttribute("aria-live", "polite");
  area.append(tip);
  figure.append(spoken);
  let step = -1;

  function hide() {
    step = -1;
    tip.hidden = true;
    marker.remove();
  }

  function show(wanted, speak) {
    const found = Math.min(steps - 1, Math.max(0, wanted));
    if (found === step) return;
    step = found;
    const row = readRow(table, step, "shares" in figure.dataset);
    tip.replaceChildren(element("div", "when", row.head));
    for (const [label, value, key] of row.lines) {
      const line = element("div", "line");
      const swatch = figure.querySelector(`.legend [data-key="${key.replace(/_ms$/, "").replace("_", "-")}"] svg`);
      line.append(swatch ? swatch.cloneNode(true) : element("span", "swatch"), element("span", "label", label), element("span", "value", value));
      tip.append(line);
    }
    tip.hidden = false;
    marker.setAttribute("x", String(step));
    svg.append(marker);
    const middle = ((step + 0.5) / steps) * area.clientWidth;
    const room = area.clientWidth - tip.offsetWidth;
    const beside = middle + 12 + tip.offsetWidth > area.clientWidth ? middle - tip.offsetWidth - 12 : middle + 12;
    tip.style.left = `${Math.max(Math.min(0, room), Math.min(Math.max(0, room), beside))}px`;
    if (speak) spoken.textContent = `${row.head}: ${row.lines.map(([label, value]) => `${label} ${value}`).join(", ")}`;
  }

  const at = (event) => {
    const box = area.getBoundingClientRect();
    return Math.floor(((event.clientX - box.left) / box.width) * steps);
  };
  area.addEventListener("pointermove", (event) => show(at(event), false));
  area.addEventListener("pointerdown", (event) => show(at(event), false));
  area.addEventListener("pointerleave", hide);
  figure.addEventListener("blur", hide);
  figure.addEventListener("keydown", (event) => {
    const now = step < 0 ? steps : step;
    const moves = { ArrowLeft: now - 1, ArrowRight: step < 0 ? 0 : step + 1, Home: 0, End: steps - 1 };
    if (event.key === "Escape") hide();
    else if (event.key in moves) show(moves[event.key], true);
    else return;
    event.preventDefault();
  });
}

setUpTheme();
setUpPicker();
document.querySelectorAll("figure.chart[data-table]").forEach(setUpChart);
