"""What each part of Lightbox describes itself with in OpenAPI 3.1; the feature ``openapi`` makes the document."""
