// The Plan page: sliders beside the fields, and the server's answer in place of the last one whenever a field changes.
// Nothing is computed here; without this script the form is submitted instead.
"use strict";

const WAIT_MS = 250;
const form = document.querySelector("form.plan");

// Place of a value on its slider, 0 to 1000, and back; by decades where the field says so.
function scaleOf(slider) {
  const { low, high } = slider.dataset;
  const isLog = "log" in slider.dataset;
  const from = isLog ? Math.log10(low) : Number(low);
  const width = (isLog ? Math.log10(high) : Number(high)) - from;
  const step = 10 ** (Math.floor(Math.log10(Math.max(1e-9, (high - low) / 100))));
  return {
    place: (value) => Math.round((1000 * ((isLog ? Math.log10(Math.max(value, low)) : value) - from)) / width),
    value: (place) => {
      const plain = from + (width * place) / 1000;
      if (!isLog) return Number((Math.round(plain / step) * step).toFixed(6));
      return "whole" in slider.dataset ? Math.round(10 ** plain) : Number((10 ** plain).toPrecision(2));
    },
  };
}

function setUpSlider(slider) {
  const field = document.getElementById(slider.dataset.for);
  const scale = scaleOf(slider);
  const follow = () => {
    const value = Number(field.value);
    if (field.value.trim() !== "" && Number.isFinite(value)) slider.value = scale.place(value);
    slider.setAttribute("aria-valuetext", field.value || "none");
  };
  slider.hidden = false;
  follow();
  field.addEventListener("input", follow);
  slider.addEventListener("input", () => {
    field.value = scale.value(Number(slider.value));
    slider.setAttribute("aria-valuetext", field.value);
    ask();
  });
}

let timer = 0;
let asked = null;

function ask() {
  clearTimeout(timer);
  timer = setTimeout(fetchAnswer, WAIT_MS);
}

async function fetchAnswer() {
  asked?.abort();
  const mine = (asked = new AbortController());
  const answer = document.getElementById("answer");
  const state = document.getElementById("state");
  const url = `${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`;
  answer.setAttribute("aria-busy", "true");
  state.textContent = "Planning…";
  try {
    const reply = await fetch(url, { signal: mine.signal });
    if (!reply.ok) throw new Error(`the site answered ${reply.status}`);
    show(new DOMParser().parseFromString(await reply.text(), "text/html"));
    history.replaceState(null, "", url);
    state.textContent = "";
  } catch (error) {
    if (error.name === "AbortError") return;
    document.getElementById("answer").removeAttribute("aria-busy");
    state.textContent = `No answer: ${error.message}. The figures below are of before.`;
  }
}

// What the server said of each field, and its answer; the fields themselves keep what is being typed.
function show(page) {
  for (const field of form.querySelectorAll("input[type=text]")) {
    const theirs = page.getElementById(field.id);
    const said = page.getElementById(field.getAttribute("aria-describedby"));
    field.toggleAttribute("aria-invalid", theirs.hasAttribute("aria-invalid"));
    if (theirs.hasAttribute("aria-invalid")) field.setAttribute("aria-invalid", "true");
    document.getElementById(said.id).replaceWith(said);
  }
  document.getElementById("answer").replaceWith(page.getElementById("answer"));
  document.querySelectorAll("#answer figure.chart[data-table]").forEach(setUpChart);
}

form.querySelectorAll("input[type=range]").forEach(setUpSlider);
form.addEventListener("input", (event) => {
  if (event.target.type === "text") ask();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  fetchAnswer();
});
