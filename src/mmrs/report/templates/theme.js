// The button that changes between light and dark; until it is pressed the page follows the system.
document.getElementById("theme").addEventListener("click", () => {
  const chosen = document.documentElement.style.colorScheme;
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.style.colorScheme = dark ? "light" : "dark";
});
