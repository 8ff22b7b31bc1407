// Before the first paint: the theme that was chosen here; the system's where none was.
try {
  const theme = localStorage.getItem("eosin-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* no storage: the system's */ }
