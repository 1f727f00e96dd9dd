"""Starting and ending a tritonserver process."""
