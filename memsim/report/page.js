"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!("sort" in head.dataset)) return;
    const button = document.createElement("button");
    button.type = "button";
    button.title = "Sort by this column";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const number = (text) => (text === "" || Number.isNaN(Number(text)) ? null : Number(text));
      const compare = (a, b) => {
        const x = number(key(a)), y = number(key(b));
        if (x !== null && y !== null) return x - y;
        if (x !== null || y !== null) return x === null ? -1 : 1;
        return key(a).localeCompare(key(b));
      };
      const body = table.tBodies[0];
      const rows = [...body.rows].sort((a, b) => (down ? compare(b, a) : compare(a, b)));
      body.append(...rows);
    });
  });
}

// Hotspots: n and p, or the buttons, move between the elements with data-stop, largest share first. The buttons
// stand below the title, and follow the reader from the first step on.
const stops = [...document.querySelectorAll("[data-stop]")].sort((a, b) => b.dataset.stop - a.dataset.stop);
const bar = document.querySelector(".hotspots");
let at = -1;
const step = (by) => {
  if (!stops.length) return;
  at = at < 0 && by < 0 ? stops.length - 1 : (at + by + stops.length) % stops.length;
  const stop = stops[at];
  for (let fold = stop.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  bar.classList.add("floating");
  stop.tabIndex = -1;
  stop.focus({ preventScroll: true });
  stop.scrollIntoView({ block: "center" });
  bar.querySelector("span").textContent = `hotspot ${at + 1} of ${stops.length}`;
};
if (bar && stops.length) {
  bar.hidden = false;
  bar.querySelector("span").textContent = `${stops.length} hotspot${stops.length > 1 ? "s" : ""}`;
  bar.addEventListener("click", (event) => {
    if (event.target.dataset.step) step(Number(event.target.dataset.step));
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    if (event.key === "n") step(1);
    if (event.key === "p") step(-1);
  });
}

// Arrays: a button with data-pick shows the accesses of one array; pressed again, all of them.
const picks = [...document.querySelectorAll("[data-pick]")];
for (const pick of picks) {
  pick.addEventListener("click", () => {
    const name = pick.getAttribute("aria-pressed") === "true" ? null : pick.dataset.pick;
    for (const other of picks) other.setAttribute("aria-pressed", other.dataset.pick === name);
    for (const row of document.querySelectorAll("[data-array]")) row.hidden = name !== null && row.dataset.array !== name;
    for (const line of document.querySelectorAll("[data-arrays]"))
      line.classList.toggle("picked", name !== null && line.dataset.arrays.split(" ").includes(name));
  });
}

// Lines far from any access are folded.
const unfold = (button) => {
  const lines = button.closest("tbody").nextElementSibling;
  lines.hidden = !lines.hidden;
  button.setAttribute("aria-expanded", !lines.hidden);
};
for (const button of document.querySelectorAll("[data-unfold]")) button.addEventListener("click", () => unfold(button));

// A link into a folded part opens it.
const reveal = () => {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  for (let fold = target && target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  const lines = target && target.closest("tbody[hidden]");
  if (lines) unfold(lines.previousElementSibling.querySelector("[data-unfold]"));
  if (target) target.scrollIntoView();
};
addEventListener("hashchange", reveal);
reveal();

// On paper, what a cell of a table folds is open; the instructions of a line of source are not.
addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("td:not(.code) > details")) fold.open = true;
});
