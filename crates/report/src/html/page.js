// Puts the page together from its data. It must not write anything of a trace other than as text.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  for (const finding of data.findings) {
    const item = document.createElement("li");
    item.textContent = finding;
    document.getElementById("findings").append(item);
  }
})();
