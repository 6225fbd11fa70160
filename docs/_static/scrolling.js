// A formula that is wider than the screen scrolls; whoever has no mouse must be able to reach it to do so.
"use strict";
window.addEventListener("load", async () => {
  await window.MathJax?.startup?.promise;
  const reach = () => {
    for (const formula of document.querySelectorAll('mjx-container[display="true"]')) {
      if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
      else formula.removeAttribute("tabindex");
    }
  };
  reach();
  window.addEventListener("resize", reach);
});
