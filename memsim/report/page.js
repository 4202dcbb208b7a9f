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
