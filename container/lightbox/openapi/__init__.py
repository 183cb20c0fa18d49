"""Parts of an OpenAPI 3.1 document, by which routes describe themselves; the feature ``openapi`` makes the document."""
