() => {
  // Ctrl+Enter (Cmd+Enter) generates from anywhere on the page.
  const press = (id) => {
    const button = document.querySelector(`#${id}`);
    if (button && !button.disabled) button.click();
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      event.stopPropagation();
      press("generate");
    }
  }, true);
}
