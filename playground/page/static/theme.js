// Sets the chosen colours before the first paint, which is why this is a plain script in the head.
(() => {
  const KEY = "hermes.playground.theme";
  const CHOICES = ["system", "light", "dark"];

  const stored = () => {
    try {
      const theme = localStorage.getItem(KEY);
      return CHOICES.includes(theme) ? theme : "system";
    } catch {
      return "system"; // storage is switched off: follow the system
    }
  };

  const show = (theme) => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };

  window.hermesTheme = {
    current: stored,
    next() {
      const theme = CHOICES[(CHOICES.indexOf(stored()) + 1) % CHOICES.length];
      try {
        localStorage.setItem(KEY, theme);
      } catch {
        // it holds until the page is closed
      }
      show(theme);
      return theme;
    },
  };
  window.addEventListener("storage", (event) => event.key === KEY && show(stored()));
  show(stored());
})();
