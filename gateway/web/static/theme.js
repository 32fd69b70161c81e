// The colour theme. A plain script in the head, so that it is set before the first paint.
(() => {
  const KEY = "hermes.theme";
  const CHOICES = ["system", "light", "dark"];

  const read = () => {
    try {
      const theme = localStorage.getItem(KEY);
      return CHOICES.includes(theme) ? theme : "system";
    } catch {
      return "system"; // storage is disabled
    }
  };

  const show = (theme) => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };

  window.hermesTheme = {
    current: read,
    next() {
      const theme = CHOICES[(CHOICES.indexOf(read()) + 1) % CHOICES.length];
      try {
        localStorage.setItem(KEY, theme);
      } catch {
        // storage is disabled: the choice lasts until the page is closed
      }
      show(theme);
      return theme;
    },
  };
  window.addEventListener("storage", (event) => event.key === KEY && show(read()));
  show(read());
})();
