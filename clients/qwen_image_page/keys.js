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
  // What gradio leaves unsaid, or says wrongly, to those who can't see the page. A thumbnail's button has a name.
  const name = () => {
    const pictures = document.querySelectorAll('img:not([alt]), .image-frame img[alt=""]');
    for (const image of pictures) image.alt = image.closest(".thumbnail-item") ? "" : "Picture";
    for (const empty of document.querySelectorAll(".empty[aria-label]:not([role])")) empty.role = "img";
    for (const header of document.querySelectorAll('.toast-header[role="button"]')) {
      header.removeAttribute("role");  // the button that closes it is inside
      header.removeAttribute("tabindex");
    }
  };
  new MutationObserver(name).observe(document.body, {subtree: true, childList: true});
  name();
}
